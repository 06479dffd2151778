#!/usr/bin/env bash
# Runs NVIDIA's diagnosis on the GPUs of this node (DCGM 3 or 4, with a running host engine):
#   tenure agent … --diagnosis /opt/tenure/dcgm/diagnosis.sh
# Exit code 0: at least one test passed and none failed; 1: a test failed; 69: no result. NVIDIA publishes no schema of this JSON, and exit
# codes of `dcgmi` differ between versions, so only the result words are read.
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
# Prints test names, results other than passed, and their messages.
grep -oiE '"(name|status|error_message|warnings?|info)" *: *"[^"]*"' <<<"$said" | grep -viE '"status" *: *"pass"' | tr -d '"' | tr -s ' ' | paste -sd ';'
if [ "$failed" -gt 0 ]; then exit 1; fi
if [ "$passed" -eq 0 ] || [ "$code" -ne 0 ]; then
    echo "no result: exit code $code" >&2
    exit 69
fi
