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
# The file has one line, `NAME:PASSWORD`. The third argument is a program that has the registry forget what no tag names, such as
# `registry garbage-collect --delete-untagged CONFIG` while nobody pushes: a registry that is asked to delete a manifest keeps its layers,
# and with them the data, until then. Without it a removal is refused. A registry gives repositories no identity: the name stands for it.
set -euo pipefail
shopt -s inherit_errexit

url=${1:?the registry} user=${2:?the file with name and password} collect=${3:-}
request=$(cat)
field() { jq -er "$1" <<<"$request"; }
arg() { jq -r ".arguments[\"$1\"] // \"\"" <<<"$request"; }
answer() { jq -nc --argjson output "${1:-null}" '{status: "done", output: $output}'; exit 0; }

grep -q : "$user" || { echo "$user has no line NAME:PASSWORD" >&2; exit 78; }
# Its own way out: what is refused may run where the output is read by this program.
exec 3>&1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
(umask 077 && printf 'user = "%s"\n' "$(tr -d '\r\n' <"$user" | sed 's/[\\"]/\\&/g')" >"$scratch/curl")
manifests='application/vnd.oci.image.index.v1+json,application/vnd.oci.image.manifest.v1+json'
manifests+=',application/vnd.docker.distribution.manifest.list.v2+json,application/vnd.docker.distribution.manifest.v2+json'

# ask METHOD PATH: body and headers are in the scratch folder; fails with 4 where there is no such thing.
ask() {
    local status code=0 head=()
    if [[ $1 == HEAD ]]; then head=(--head); fi
    status=$(curl --silent --show-error --max-time 60 --config "$scratch/curl" --request "$1" "${head[@]}" --output "$scratch/body" \
        --header "Accept: $manifests, application/json" --dump-header "$scratch/head" --write-out '%{http_code}' "$url$2") || code=$?
    case $code in
    0) ;;
    5 | 6 | 7 | 35) exit 69 ;;       # nothing was sent
    *) exit 1 ;;                     # nobody knows what became of it
    esac
    case $status in
    2??) ;;
    404) return 4 ;;
    401 | 403) echo "the registry answers $status to $1 $2" >&2; exit 77 ;;
    405) echo "the registry deletes nothing: allow it (storage.delete.enabled)" >&2; exit 78 ;;
    429 | 503)
        jq -nc --arg s "$(header retry-after)" --arg status "$status" \
            '{message: "the registry answers \($status)", retry_after_seconds: ($s | tonumber? // null)}' >&3
        exit 75
        ;;
    *) echo "the registry answers $status to $1 $2: $(cat "$scratch/body")" >&2; exit 1 ;;
    esac
}
header() { tr -d '\r' <"$scratch/head" | sed -n "s/^$1: *//Ip" | tail -n 1; }

# What is asked for page by page, as one array: the next page is where the header says.
paged() { # PATH FIELD
    local path=$1 all='[]'
    while [[ -n $path ]]; do
        if ! ask GET "$path"; then
            # Only the registry's own word for it is an absence, and of a catalogue there is none.
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

# A repository with a tag at least; the catalogue goes on naming those that have none.
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
    [[ -n $collect ]] || { echo "name a program that collects garbage: without it the layers stay" >&2; exit 78; }
    tags=$(tags "$name")
    while read -r tag; do
        if ! ask HEAD "/v2/$name/manifests/$tag"; then continue; fi
        digest=$(header docker-content-digest)
        [[ -n $digest ]] || { echo "the registry does not say what $name:$tag is" >&2; exit 1; }
        # Another tag of the same manifest went with it.
        ask DELETE "/v2/$name/manifests/$digest" || true
    done < <(jq -r '.[]' <<<"$tags")
    "$collect" "$name" >&2
}

verb=$(field .verb) what=$(arg do) kind=$(arg kind) name=$(arg name)
tenant=$(field '.tenant | tostring')
case "$verb $what $kind" in
"look survey ")
    [[ $tenant =~ ^[a-z0-9-]+$ ]] || { echo "$tenant is no tenant" >&2; exit 65; }
    found=$(survey)
    answer "$found"
    ;;
"look look Repository") shown=$(show "$name"); answer "$shown" ;;
"look look "*) answer ;;
"run remove Repository") remove "$name"; answer ;;
*) echo "there is no $verb $what of $kind here" >&2; exit 78 ;;
esac
