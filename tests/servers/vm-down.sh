#!/bin/bash
# Ends the machine that vm-up.sh started in DIR. The contents of its drives stay.
#
# Usage: vm-down.sh DIR
dir=$(cd "${1:?usage: vm-down.sh DIR}" && pwd) || exit 1
pid=$(cat "$dir/pid" 2>/dev/null) || exit 0
# A process id that another program has by now is ignored.
tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF "$dir" || exit 0
kill -TERM "$pid"
for _ in $(seq 50); do kill -0 "$pid" 2>/dev/null || exit 0; sleep 0.1; done
kill -KILL "$pid"
