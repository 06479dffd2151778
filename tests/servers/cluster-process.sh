#!/usr/bin/env bash
# Starts, stops and stalls one program of cluster-up.sh or node-up.sh.
#
#   cluster-process.sh DIR PROGRAM start     does nothing if it runs; waits until it is ready, at most 60 s
#   cluster-process.sh DIR PROGRAM kill      SIGKILL, at once
#   cluster-process.sh DIR PROGRAM pause     SIGSTOP; `resume` lets it go on
#
# PROGRAM is etcd, apiserver, controllers, scheduler, kwok, kueue, containerd, kubelet or device-plugin: DIR/run-PROGRAM starts it,
# DIR/ready-PROGRAM ends with 0 once it serves, DIR/PROGRAM.log is its log.
set -euo pipefail

dir=$(cd "${1:?the folder of cluster-up.sh}" && pwd)
name=${2:?a program}
pid=$(cat "$dir/$name.pid" 2>/dev/null || true)
[ -x "$dir/run-$name" ] || { echo "cluster-process: no program $name in $dir" >&2; exit 2; }
alive() { [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; }
# Each is the head of a session.
to_all() { [ -z "$pid" ] || kill "-$1" -- "-$pid" 2>/dev/null || true; }

case ${3:?start, kill, pause or resume} in
kill)
    to_all KILL
    rm -f "$dir/$name.pid"
    ;;
pause) to_all STOP ;;
resume) to_all CONT ;;
start)
    if ! alive; then
        # The caller's descriptors, such as those of locks, do not go to a program that stays.
        setsid "$dir/run-$name" >>"$dir/$name.log" 2>&1 </dev/null 9>&- &
        pid=$!
        echo "$pid" >"$dir/$name.pid"
    fi
    until_s=$((SECONDS + 60))
    until "$dir/ready-$name" >/dev/null 2>&1; do
        if ! alive || [ $SECONDS -gt $until_s ]; then
            echo "cluster-process: $name does not become ready; see $dir/$name.log" >&2
            tail -n 5 "$dir/$name.log" >&2
            exit 1
        fi
        sleep 0.1
    done
    ;;
*)
    echo "cluster-process: say start, kill, pause or resume" >&2
    exit 2
    ;;
esac
