#!/usr/bin/env bash
# The system `registry` behind a container registry (OCI distribution, `/v2/`): repositories whose names begin with `TENANT/`.
#
#   systems:
#     registry:
#       hook:
#         exec:
#           program: /opt/tenure/hooks/registry/hook.sh
#           arguments: [https://registry.example, /etc/tenure/registry.user, /opt/tenure/hooks/registry/collect.sh]
#           deadline: 10m
#       verifier:
#         exec:
#           program: /opt/tenure/hooks/registry/hook.sh
#           arguments: [https://registry.example, /etc/tenure/registry-reader.user]
#
# The file has one line, `NAME:PASSWORD`. The third argument is a program that runs the registry's garbage collection, such as
# `registry garbage-collect --delete-untagged CONFIG`, while pushes are disabled. Deleting a manifest keeps its layers until then, so without
# this program a removal is refused. A registry assigns no ids to repositories; the name is the id.
set -euo pipefail
shopt -s inherit_errexit

url=${1:?the registry} user=${2:?the file with name and password} collect=${3:-}
request=$(cat)
field() { jq -er "$1" <<<"$request"; }
arg() { jq -r ".arguments[\"$1\"] // \"\"" <<<"$request"; }
answer() { jq -nc --argjson output "${1:-null}" '{status: "done", output: $output}'; exit 0; }

grep -q : "$user" || { echo "$user has no line NAME:PASSWORD" >&2; exit 78; }
# Refusals use file descriptor 3, because they may happen inside a command substitution.
exec 3>&1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
(umask 077 && printf 'user = "%s"\n' "$(tr -d '\r\n' <"$user" | sed 's/[\\"]/\\&/g')" >"$scratch/curl")
manifests='application/vnd.oci.image.index.v1+json,application/vnd.oci.image.manifest.v1+json'
manifests+=',application/vnd.docker.distribution.manifest.list.v2+json,application/vnd.docker.distribution.manifest.v2+json'

# ask METHOD PATH: body and headers are in the scratch folder; returns 4 if the object does not exist.
ask() {
    local status code=0 head=()
    if [[ $1 == HEAD ]]; then head=(--head); fi
    status=$(curl --silent --show-error --max-time 60 --config "$scratch/curl" --request "$1" "${head[@]}" --output "$scratch/body" \
        --header "Accept: $manifests, application/json" --dump-header "$scratch/head" --write-out '%{http_code}' "$url$2") || code=$?
    case $code in
    0) ;;
    5 | 6 | 7 | 35) exit 69 ;;       # nothing was sent
    *) exit 1 ;;                     # the outcome is unknown
    esac
    case $status in
    2??) ;;
    404) return 4 ;;
    401 | 403) echo "the registry answers $status to $1 $2" >&2; exit 77 ;;
    405) echo "the registry does not allow deletion: set storage.delete.enabled" >&2; exit 78 ;;
    429 | 503)
        jq -nc --arg s "$(header retry-after)" --arg status "$status" \
            '{message: "the registry answers \($status)", retry_after_seconds: ($s | tonumber? // null)}' >&3
        exit 75
        ;;
    *) echo "the registry answers $status to $1 $2: $(cat "$scratch/body")" >&2; exit 1 ;;
    esac
}
header() { tr -d '\r' <"$scratch/head" | sed -n "s/^$1: *//Ip" | tail -n 1; }

# Prints all pages as one array; the Link header names the next page.
paged() { # PATH FIELD
    local path=$1 all='[]'
    while [[ -n $path ]]; do
        if ! ask GET "$path"; then
            # Only the code NAME_UNKNOWN means that the repository does not exist.
            jq -e '[.errors[]?.code] | index("NAME_UNKNOWN")' "$scratch/body" >/dev/null 2>&1 ||
                { echo "the registry answers 404 to GET $path" >&2; exit 78; }
            break
        fi
        all=$(jq -c --argjson all "$all" "\$all + (.$2 // [])" "$scratch/body") || { echo "the answer to GET $path cannot be read" >&2; exit 76; }
        path=$(header link | sed -n 's/^<\([^>]*\)>.*rel="next".*$/\1/p')
        path=${path#"$url"}
    done
    printf '%s' "$all"
}

tags() { paged "/v2/$1/tags/list?n=1000" tags; }

# Prints a repository with at least one tag; the catalogue also lists repositories without tags.
show() {
    local tags
    tags=$(tags "$1")
    if [[ $tags == '[]' ]]; then printf 'null'; return; fi
    jq -nc --arg n "$1" --argjson t "$tags" '{kind: "Repository", name: $n, uid: $n, tenant: ($n | split("/")[0]), class: "workload", tags: ($t | length)}'
}

survey() {
    local name shown all='[]' catalog
    catalog=$(paged "/v2/_catalog?n=1000" repositories)
    while read -r name; do
        shown=$(show "$name")
        all=$(jq -c --argjson shown "$shown" '. + [$shown | select(. != null)]' <<<"$all")
    done < <(jq -r --arg t "$tenant/" '.[] | select(startswith($t))' <<<"$catalog")
    printf '%s' "$all"
}

remove() {
    local name=$1 tag tags digest
    [[ -n $collect ]] || { echo "no garbage collection program is set: the layers would remain" >&2; exit 78; }
    tags=$(tags "$name")
    while read -r tag; do
        if ! ask HEAD "/v2/$name/manifests/$tag"; then continue; fi
        digest=$(header docker-content-digest)
        [[ -n $digest ]] || { echo "the registry returned no digest for $name:$tag" >&2; exit 1; }
        # The manifest may already be deleted through another tag.
        ask DELETE "/v2/$name/manifests/$digest" || true
    done < <(jq -r '.[]' <<<"$tags")
    "$collect" "$name" >&2
}

verb=$(field .verb) what=$(arg do) kind=$(arg kind) name=$(arg name)
tenant=$(field '.tenant | tostring')
case "$verb $what $kind" in
"look survey ")
    [[ $tenant =~ ^[a-z0-9-]+$ ]] || { echo "invalid tenant name: $tenant" >&2; exit 65; }
    found=$(survey)
    answer "$found"
    ;;
"look look Repository") shown=$(show "$name"); answer "$shown" ;;
"look look "*) answer ;;
"run remove Repository") remove "$name"; answer ;;
*) echo "not supported: $verb $what $kind" >&2; exit 78 ;;
esac
