#!/usr/bin/env bash
# A hook for Helm (3.13 or later): one release per tenant and hook, labelled with the step that installed it.
#
#   hooks:
#     registry-cache:
#       exec:
#         program: /opt/tenure/hooks/helm/hook.sh
#         arguments: [/opt/charts/registry-cache]
#         environment: [PATH, HOME, KUBECONFIG]
#         deadline: 10m
#         dry_runs: true
#
# The arguments of the hook are the chart's values; `namespace` sets the namespace (default: `t-TENANT`).
set -euo pipefail

chart=${1:?the chart}
request=$(cat)
field() { jq -er "$1" <<<"$request"; }
answer() { jq -nc "$@"; exit 0; }

verb=$(field .verb) tenant=$(field .tenant) hook=$(field .hook)
undo=$(field '.undo | tostring')
namespace=$(field '.arguments.namespace // ("t-" + .tenant)')
release="$tenant-$hook"
[[ $release =~ ^[a-z0-9-]{1,53}$ ]] || { echo "invalid release name: $release" >&2; exit 65; }
# Labels do not allow all characters of a step, so the label has its digest.
step=$(field .step | sha256sum | cut -c1-40)
seconds=$(($(field .deadline_ms) / 1000 * 9 / 10 + 1))

values=$(mktemp --suffix=.json)
trap 'rm -f "$values"' EXIT
jq '.arguments' <<<"$request" >"$values"

# Prints the release's state, or nothing if it does not exist.
status() {
    local said code=0
    said=$(helm status "$release" --namespace "$namespace" --output json 2>&1) || code=$?
    if ((code != 0)); then
        if grep -q 'release: not found' <<<"$said"; then return 0; fi
        echo "$said" >&2
        exit 75
    fi
    jq -r '.info.status' <<<"$said"
}
owner() { helm get metadata "$release" --namespace "$namespace" --output json | jq -r '.labels["tenure-step"] // ""'; }

state=$(status)
if [[ -n $state ]]; then made_by=$(owner); else made_by=; fi
mine=$([[ -n $state && $made_by == "$step" ]] && echo yes || echo no)

case $verb in
run)
    if [[ -n $state && $mine == no ]]; then
        jq -nc '{code: "object.foreign", message: "another step or another owner installed this release"}'
        exit 65
    fi
    case $state in
    deployed) answer --arg r "$release" --arg n "$namespace" '{status: "done", output: {release: $r, namespace: $n}}' ;;
    # Another attempt is running or was interrupted; Helm reports this until a rollback or an uninstall.
    pending-* | uninstalling) answer '{status: "pending", retry_after_seconds: 10}' ;;
    esac
    helm upgrade "$release" "$chart" --install --namespace "$namespace" --values "$values" --labels "tenure-step=$step" \
        --atomic --wait --timeout "${seconds}s" >&2
    answer --arg r "$release" --arg n "$namespace" '{status: "done", output: {release: $r, namespace: $n}}'
    ;;
probe)
    if [[ $undo == true ]]; then
        if [[ -z $state || $mine == no ]]; then answer '{status: "done"}'; else answer '{status: "not_done"}'; fi
    fi
    if [[ $mine == no ]]; then answer '{status: "not_done"}'; fi
    case $state in
    deployed) answer --arg r "$release" --arg n "$namespace" '{status: "done", output: {release: $r, namespace: $n}}' ;;
    pending-* | uninstalling) answer '{status: "pending", retry_after_seconds: 10}' ;;
    *) answer '{status: "not_done"}' ;;
    esac
    ;;
undo)
    if [[ -z $state ]]; then answer '{status: "done"}'; fi
    if [[ $mine == no ]]; then answer --arg r "$release" '{status: "done", output: {left: $r}}'; fi
    helm uninstall "$release" --namespace "$namespace" --ignore-not-found --wait --timeout "${seconds}s" >&2
    answer '{status: "done"}'
    ;;
dry_run)
    if [[ $undo == true ]]; then
        answer '{status: "done"}'
    fi
    helm upgrade "$release" "$chart" --install --namespace "$namespace" --values "$values" --labels "tenure-step=$step" \
        --dry-run=server >&2
    answer '{status: "done"}'
    ;;
*) echo "unknown verb: $verb" >&2; exit 64 ;;
esac
