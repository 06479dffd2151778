#!/bin/bash
# Runs one program in the machine of vm-up.sh, with this script's input, output and exit code. 255: the machine does not answer.
#
# Usage: vm-exec.sh PORT PROGRAM [WORD...]
port=${1:?usage: vm-exec.sh PORT PROGRAM [WORD...]}
shift
exec 3<>"/dev/tcp/127.0.0.1/$port" || exit 255
words=
for word; do words+="w$(printf %s "$word" | base64 -w0) "; done
printf '%s\nw%s\n' "$words" "$(base64 -w0)" >&3
answer=$(mktemp)
trap 'rm -f "$answer"' EXIT
cat <&3 >"$answer"
code=$(sed -n 1p "$answer")
sed -n 2p "$answer" | base64 -d
sed -n 3p "$answer" | base64 -d >&2
exit "${code:-255}"
