#!/usr/bin/env bash
# A hook for Argo CD: an application per tenant and hook, labelled with the step that made it, and synchronised by Argo CD.
#
#   hooks:
#     monitoring:
#       exec:
#         program: /opt/tenure/hooks/argo-cd/hook.sh
#         environment: [PATH, HOME, ARGOCD_SERVER, ARGOCD_AUTH_TOKEN, ARGOCD_OPTS]
#         deadline: 1m
#
# Arguments of the hook: `repo`, `path`, `revision`, `cluster` (its API server) and `namespace`. Nothing is waited for: how far Argo CD is,
# is asked again until it is synced and healthy.
set -euo pipefail

request=$(cat)
field() { jq -er "$1" <<<"$request"; }
answer() { jq -nc "$@"; exit 0; }

verb=$(field .verb) tenant=$(field .tenant) hook=$(field .hook)
undo=$(field '.undo | tostring')
app="$tenant-$hook"
[[ $app =~ ^[a-z0-9-]{1,63}$ ]] || { echo "$app is no name of an application" >&2; exit 65; }
# A step has characters that labels do not take: its digest stands for it.
step=$(field .step | sha256sum | cut -c1-40)

# The application as JSON, or nothing where there is none.
look() {
    local said code=0
    said=$(argocd app get "$app" --output json 2>&1) || code=$?
    if ((code != 0)); then
        # What one may not see and what is not there are told alike by older servers; both are not ours to touch.
        if grep -q 'NotFound' <<<"$said"; then return 0; fi
        echo "$said" >&2
        exit 75
    fi
    printf '%s' "$said"
}

# How it stands, as an answer.
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
        jq -nc '{code: "object.foreign", message: "another step or somebody else made this application"}'
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
    # It is gone when all that it made is.
    answer '{status: "pending", retry_after_seconds: 10}'
    ;;
*) echo "there is no verb $verb" >&2; exit 64 ;;
esac
