#!/usr/bin/env bash
# A hook for Argo CD: one application per tenant and hook, labelled with the step that created it.
#
#   hooks:
#     monitoring:
#       exec:
#         program: /opt/tenure/hooks/argo-cd/hook.sh
#         environment: [PATH, HOME, ARGOCD_SERVER, ARGOCD_AUTH_TOKEN, ARGOCD_OPTS]
#         deadline: 1m
#
# Arguments of the hook: `repo`, `path`, `revision`, `cluster` (its API server) and `namespace`. The hook answers `pending` until the
# application is synced and healthy.
set -euo pipefail

request=$(cat)
field() { jq -er "$1" <<<"$request"; }
answer() { jq -nc "$@"; exit 0; }

verb=$(field .verb) tenant=$(field .tenant) hook=$(field .hook)
undo=$(field '.undo | tostring')
app="$tenant-$hook"
[[ $app =~ ^[a-z0-9-]{1,63}$ ]] || { echo "invalid application name: $app" >&2; exit 65; }
# Labels do not allow all characters of a step, so the label has its digest.
step=$(field .step | sha256sum | cut -c1-40)

# Prints the application as JSON, or nothing if it does not exist.
look() {
    local said code=0
    said=$(argocd app get "$app" --output json 2>&1) || code=$?
    if ((code != 0)); then
        # Older servers give the same answer for a missing and an invisible application. Neither may be changed.
        if grep -q 'NotFound' <<<"$said"; then return 0; fi
        echo "$said" >&2
        exit 75
    fi
    printf '%s' "$said"
}

# Answers with the state of the application.
standing() {
    local sync health
    sync=$(jq -r '.status.sync.status // ""' <<<"$1") health=$(jq -r '.status.health.status // ""' <<<"$1")
    case $sync/$health in
    Synced/Healthy) answer --arg a "$app" --arg r "$(jq -r '.status.sync.revision // ""' <<<"$1")" \
        '{status: "done", output: {application: $a, revision: $r}}' ;;
    */Degraded) echo "application $app is degraded" >&2; exit 75 ;;
    *) answer '{status: "pending", retry_after_seconds: 10}' ;;
    esac
}

found=$(look)
made_by=
if [[ -n $found ]]; then made_by=$(jq -r '.metadata.labels["tenure-step"] // ""' <<<"$found"); fi

case $verb in
run)
    if [[ -n $found && $made_by != "$step" ]]; then
        jq -nc '{code: "object.foreign", message: "another step or another owner created this application"}'
        exit 65
    fi
    if [[ -z $found ]]; then
        argocd app create "$app" --upsert --repo "$(field .arguments.repo)" --path "$(field .arguments.path)" \
            --revision "$(field '.arguments.revision // "HEAD"')" --dest-server "$(field .arguments.cluster)" \
            --dest-namespace "$(field .arguments.namespace)" --label "tenure-step=$step" --sync-policy automated --auto-prune >&2
        found=$(look)
    fi
    standing "$found"
    ;;
probe)
    if [[ $undo == true ]]; then
        if [[ -z $found || $made_by != "$step" ]]; then answer '{status: "done"}'; fi
        if [[ -n $(jq -r '.metadata.deletionTimestamp // ""' <<<"$found") ]]; then
            answer '{status: "pending", retry_after_seconds: 10}'
        fi
        answer '{status: "not_done"}'
    fi
    if [[ -z $found || $made_by != "$step" ]]; then answer '{status: "not_done"}'; fi
    standing "$found"
    ;;
undo)
    if [[ -z $found ]]; then answer '{status: "done"}'; fi
    if [[ $made_by != "$step" ]]; then answer --arg a "$app" '{status: "done", output: {left: $a}}'; fi
    if [[ -z $(jq -r '.metadata.deletionTimestamp // ""' <<<"$found") ]]; then
        argocd app delete "$app" --cascade --yes >&2
    fi
    # The application is gone when all its resources are gone.
    answer '{status: "pending", retry_after_seconds: 10}'
    ;;
*) echo "unknown verb: $verb" >&2; exit 64 ;;
esac
