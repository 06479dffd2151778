#!/usr/bin/env bash
# A hook for Terraform: one workspace per tenant and hook, with the resources of the module.
#
#   hooks:
#     network:
#       exec:
#         program: /opt/tenure/hooks/terraform/hook.sh
#         arguments: [/opt/tenure/hooks/terraform/module]
#         environment: [PATH, HOME]
#         deadline: 10m
#         dry_runs: true
#
# The module takes the variables `tenant`, `step` and `arguments`, and has an output `step`.
set -euo pipefail

module=${1:?the folder of the module}
request=$(cat)
field() { jq -er "$1" <<<"$request"; }
answer() { jq -nc "$@"; exit 0; }
# Terraform writes to standard error; standard output has only the answer.
tf() { terraform -chdir="$module" "$@" >&2; }

verb=$(field .verb) tenant=$(field .tenant) hook=$(field .hook) step=$(field .step)
[[ $tenant =~ ^[a-z0-9-]+$ && $hook =~ ^[a-z0-9-]+$ ]] || { echo "invalid tenant or hook name" >&2; exit 65; }
export TF_IN_AUTOMATION=1
unset TF_WORKSPACE
workspace="$tenant--$hook"

variables=$(mktemp --suffix=.tfvars.json)
trap 'rm -f "$variables"' EXIT
jq '{tenant, step, arguments}' <<<"$request" >"$variables"

# 75: nothing was done, retry later.
tf init -input=false -no-color || exit 75
owner() { terraform -chdir="$module" output -no-color -json | jq -r '.step.value // ""'; }
there() { grep -Fqx "$workspace" <<<"$(terraform -chdir="$module" workspace list -no-color | sed 's/^[* ] //')"; }

case $verb in
run)
    there || tf workspace new -no-color "$workspace"
    tf workspace select -no-color "$workspace"
    made_by=$(owner)
    if [[ -n $made_by && $made_by != "$step" ]]; then
        jq -nc --arg by "$made_by" '{code: "object.foreign", message: "step \($by) created it"}'
        exit 65
    fi
    tf apply -input=false -no-color -auto-approve -lock-timeout=60s -var-file="$variables"
    outputs=$(terraform -chdir="$module" output -no-color -json)
    answer --argjson o "$outputs" '{status: "done", output: ($o | map_values(.value))}'
    ;;
probe)
    undo=$(field '.undo | tostring')
    if ! there; then
        if [[ $undo == true ]]; then answer '{status: "done"}'; else answer '{status: "not_done"}'; fi
    fi
    if [[ $undo == true ]]; then answer '{status: "not_done"}'; fi
    tf workspace select -no-color "$workspace"
    code=0
    tf plan -input=false -no-color -detailed-exitcode -lock-timeout=60s -var-file="$variables" || code=$?
    case $code in
    0) outputs=$(terraform -chdir="$module" output -no-color -json)
       answer --argjson o "$outputs" '{status: "done", output: ($o | map_values(.value))}' ;;
    2) answer '{status: "not_done"}' ;;
    *) exit 75 ;;
    esac
    ;;
undo)
    there || answer '{status: "done"}'
    tf workspace select -no-color "$workspace"
    made_by=$(owner)
    if [[ -n $made_by && $made_by != "$step" ]]; then
        answer --arg by "$made_by" '{status: "done", output: {left: $by}}'
    fi
    tf destroy -input=false -no-color -auto-approve -lock-timeout=60s -var-file="$variables"
    tf workspace select -no-color default
    tf workspace delete -no-color "$workspace"
    answer '{status: "done"}'
    ;;
dry_run)
    if there; then tf workspace select -no-color "$workspace"; else tf workspace select -no-color default; fi
    if [[ $(field '.undo | tostring') == true ]]; then destroy=(-destroy); else destroy=(); fi
    tf plan -input=false -no-color -lock=false "${destroy[@]}" -var-file="$variables"
    answer '{status: "done"}'
    ;;
*) echo "unknown verb: $verb" >&2; exit 64 ;;
esac
