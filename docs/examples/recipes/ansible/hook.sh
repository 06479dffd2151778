#!/usr/bin/env bash
# A hook for Ansible: an idempotent play that creates or removes resources by the variable `state`.
#
#   hooks:
#     accounts:
#       exec:
#         program: /opt/tenure/hooks/ansible/hook.sh
#         arguments: [/opt/tenure/hooks/ansible/play.yml, /etc/ansible/hosts]
#         environment: [PATH, HOME]
#         deadline: 10m
#         dry_runs: true
#
# The play takes the variables `tenant`, `step`, `state` (present, absent) and `arguments`. `probe` runs it with --check.
set -euo pipefail

play=${1:?the play} inventory=${2:?the inventory}
request=$(cat)
field() { jq -er "$1" <<<"$request"; }
answer() { jq -nc "$@"; exit 0; }

verb=$(field .verb)
undo=$(field '.undo | tostring')
if [[ $undo == true ]]; then state=absent; else state=present; fi
variables=$(mktemp --suffix=.json)
trap 'rm -f "$variables"' EXIT
jq --arg state "$state" '{tenant, step, arguments, state: $state}' <<<"$request" >"$variables"

export ANSIBLE_STDOUT_CALLBACK=default ANSIBLE_NOCOLOR=1 ANSIBLE_RETRY_FILES_ENABLED=false
# Writes the play's output to standard error and its recap, as JSON per host, to $stats.
played() {
    local said code=0
    said=$(ansible-playbook --inventory "$inventory" --extra-vars "@$variables" "$@" "$play") || code=$?
    printf '%s\n' "$said" >&2
    stats=$(sed -n '/^PLAY RECAP/,$p' <<<"$said" | jq -Rnc '[inputs | capture("^(?<host>[^ ]+) +: +(?<counts>ok=.*)$")]
        | map({key: .host, value: (.counts | [scan("([a-z]+)=([0-9]+)")] | map({key: .[0], value: (.[1] | tonumber)}) | from_entries)})
        | from_entries')
    return "$code"
}

case $verb in
run | undo)
    # A partial failure ends with Ansible's exit code (2, 4, ...): Tenure probes and retries.
    played
    answer --argjson stats "$stats" '{status: "done", output: $stats}'
    ;;
probe)
    # 75: the check failed, retry later.
    played --check || exit 75
    if [[ $(jq '[.[].changed] | add // 0' <<<"$stats") == 0 ]]; then
        answer --argjson stats "$stats" '{status: "done", output: $stats}'
    fi
    answer '{status: "not_done"}'
    ;;
dry_run)
    played --check --diff || exit 75
    answer --argjson stats "$stats" '{status: "done", output: $stats}'
    ;;
*) echo "unknown verb: $verb" >&2; exit 64 ;;
esac
