#!/usr/bin/env bash
# Whether the GPUs of this node pass NVIDIA's own diagnosis (DCGM 3 or 4, its host engine running):
#   tenure agent … --diagnosis /opt/tenure/dcgm/diagnosis.sh
# Ends with 0 where some test passed and none failed, with 1 where one failed, and with 69 where nothing is known. The makers publish no schema
# of this JSON, and the exit code of `dcgmi` differs between versions: only the words for results are read.
set -uo pipefail
case "${1:-}" in
    medium) level=2 ;; # about two minutes
    long) level=3 ;;   # about fifteen
    *) echo "usage: $0 medium|long" >&2 && exit 64 ;;
esac
said=$(dcgmi diag -r "$level" -j)
code=$?
count() { grep -oiE "\"status\" *: *\"$1\"" <<<"$said" | wc -l; }
passed=$(count pass) failed=$(count fail)
echo "dcgmi diag -r $level: $passed passed, $failed failed, $(count warn) warned, $(count skip) skipped"
# Names of tests, results other than passed, and what was said of them.
grep -oiE '"(name|status|error_message|warnings?|info)" *: *"[^"]*"' <<<"$said" | grep -viE '"status" *: *"pass"' | tr -d '"' | tr -s ' ' | paste -sd ';'
if [ "$failed" -gt 0 ]; then exit 1; fi
if [ "$passed" -eq 0 ] || [ "$code" -ne 0 ]; then
    echo "nothing is known: exit code $code" >&2
    exit 69
fi
