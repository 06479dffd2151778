#!/usr/bin/env bash
# Ends only the processes that cluster-up.sh and node-up.sh started in DIR. The folder stays.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
dir=$(cd "${1:?the folder of cluster-up.sh}" && pwd)
"$here/node-down.sh" "$dir"
for name in kueue kwok scheduler controllers apiserver etcd; do
    if [ -x "$dir/run-$name" ]; then "$here/cluster-process.sh" "$dir" "$name" kill; fi
done
rm -f "$dir/watch.pid"
