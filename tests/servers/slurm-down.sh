#!/bin/bash
# Ends what slurm-up.sh started in DIR: the process groups whose leaders it noted in DIR/run and DIR/munge, jobs with them.
set -euo pipefail
dir=$(cd "${1:?usage: slurm-down.sh DIR}" && pwd)

# A daemon that is not ours any more may have left its id to another process: only one that knows this folder is ended.
ours() { [ -d "/proc/$1" ] && { tr '\0' ' ' <"/proc/$1/cmdline"; tr '\0' '\n' <"/proc/$1/environ"; } 2>/dev/null | grep -qF "$dir"; }

# Jobs first: their processes are in sessions of their own.
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
