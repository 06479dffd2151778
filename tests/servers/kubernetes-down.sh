#!/usr/bin/env bash
# Ends what kubernetes-up.sh started in DIR, and only that. The folder stays.
set -euo pipefail

dir=${1:?the folder of kubernetes-up.sh}
for name in manager apiserver etcd; do
    [ -s "$dir/$name.pid" ] || continue
    pid=$(cat "$dir/$name.pid")
    # Each was started as the head of its own session.
    kill -KILL -- "-$pid" 2>/dev/null || true
    rm -f "$dir/$name.pid"
done
