#!/usr/bin/env bash
# Ends only the processes that kubernetes-up.sh started in DIR. The folder stays.
set -euo pipefail

dir=${1:?the folder of kubernetes-up.sh}
for name in manager apiserver etcd; do
    [ -s "$dir/$name.pid" ] || continue
    pid=$(cat "$dir/$name.pid")
    # Each was started as the head of its own session.
    kill -KILL -- "-$pid" 2>/dev/null || true
    rm -f "$dir/$name.pid"
done
