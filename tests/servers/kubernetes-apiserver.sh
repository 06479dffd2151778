#!/usr/bin/env bash
# Simulates an outage of the API server of kubernetes-up.sh.
#
#   kubernetes-apiserver.sh DIR kill     SIGKILL, at once
#   kubernetes-apiserver.sh DIR start    starts it again and waits until it is ready
set -euo pipefail

dir=$(cd "${1:?the folder of kubernetes-up.sh}" && pwd)
case ${2:?kill or start} in
kill)
    kill -KILL -- "-$(cat "$dir/apiserver.pid")" 2>/dev/null || true
    ;;
start)
    setsid "$dir/run-apiserver" >>"$dir/apiserver.log" 2>&1 </dev/null &
    echo $! >"$dir/apiserver.pid"
    for _ in $(seq 600); do
        if curl -sS --fail --cacert "$dir/ca.crt" -H "Authorization: Bearer $(cat "$dir/admin.token")" \
            "$(cat "$dir/server")/readyz" >/dev/null 2>&1; then
            exit 0
        fi
        kill -0 "$(cat "$dir/apiserver.pid")" 2>/dev/null || break
        sleep 0.1
    done
    echo "kubernetes-apiserver: it does not become ready; see $dir/apiserver.log" >&2
    tail -n 5 "$dir/apiserver.log" >&2
    exit 1
    ;;
*)
    echo "kubernetes-apiserver: say kill or start" >&2
    exit 2
    ;;
esac
