#!/bin/bash
# Ends the daemons of slurm-up.sh in DIR: the process groups whose leaders are listed in DIR/run and DIR/munge, and jobs.
set -euo pipefail
dir=$(cd "${1:?usage: slurm-down.sh DIR}" && pwd)

# The process id of an ended daemon may belong to another process: only processes of this folder are ended.
ours() { [ -d "/proc/$1" ] && { tr '\0' ' ' <"/proc/$1/cmdline"; tr '\0' '\n' <"/proc/$1/environ"; } 2>/dev/null | grep -qF "$dir"; }

# Jobs first: their processes have separate sessions.
export SLURM_CONF=$dir/slurm.conf
for environ in /proc/[0-9]*/environ; do
    pid=${environ#/proc/}; pid=${pid%/environ}
    [ "$pid" = $$ ] && continue
    name=$(cat "/proc/$pid/comm" 2>/dev/null) || continue
    case $name in slurmstepd) tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q slurmstepd && ours "$pid" && kill -KILL -- "-$pid" 2>/dev/null || true ;; esac
done
for noted in slurmrestd 'slurmd.gpu*' slurmctld slurmdbd mariadbd munged; do
    for file in "$dir"/run/$noted; do
        [ -s "$file" ] || continue
        pid=$(cat "$file")
        ours "$pid" && kill -KILL -- "-$pid" 2>/dev/null || true
    done
done
