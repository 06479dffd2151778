#!/usr/bin/env bash
# Stops the processes that radosgw-up.sh DIR started. With a second argument, `gateway`, kills only the gateway.
set -euo pipefail

DIR=${1:?usage: radosgw-down.sh DIR [gateway]}
stop() { # name, signal
    local file=$DIR/run/$1.pid pid
    [ -s "$file" ] || return 0
    pid=$(cat "$file")
    # A process id that another program has by now is ignored.
    if grep -qs "$DIR\|ceph-\|radosgw" "/proc/$pid/cmdline"; then
        kill "-$2" "$pid" 2>/dev/null || true
        for _ in $(seq 50); do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL "$pid" 2>/dev/null || true
    fi
    rm -f "$file"
}

if [ "${2:-all}" = gateway ]; then
    stop gateway KILL
    exit 0
fi
for part in gateway osd mon; do
    stop "$part" TERM
done
