#!/usr/bin/env bash
# Ends the node that node-up.sh added to the cluster in DIR, with its containers. The folder stays, and so does the cluster's record of the node.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
dir=$(cd "${1:?the folder of cluster-up.sh}" && pwd)
[ -d "$dir/node" ] || exit 0
process() { if [ -x "$dir/run-$1" ]; then "$here/cluster-process.sh" "$dir" "$1" kill; fi; }
for name in kubelet device-plugin; do process "$name"; done
on_node() { timeout 10 ctr --address "$dir/node/containerd.sock" --namespace k8s.io "$@"; }
if [ -S "$dir/node/containerd.sock" ]; then
    for task in $(on_node tasks list --quiet 2>/dev/null || true); do on_node tasks delete --force "$task" >/dev/null 2>&1 || true; done
fi
process containerd
# What the kubelet and containerd mounted, the innermost first.
awk -v under="$dir/node/" 'index($2, under) == 1 {print $2}' /proc/mounts | sort -r | while read -r mount; do umount "$mount" 2>/dev/null || true; done
ip link delete tenure0 2>/dev/null || true
