#!/usr/bin/env bash
# The system `identity` behind a SCIM 2.0 service (RFC 7644): a tenant's groups and its administrators.
#
#   systems:
#     identity:
#       hook:
#         exec:
#           program: /opt/tenure/hooks/scim/hook.sh
#           arguments: [https://idp.example/scim/v2, /etc/tenure/scim.token, /etc/tenure/owners]
#       verifier:
#         exec:
#           program: /opt/tenure/hooks/scim/hook.sh
#           arguments: [https://idp.example/scim/v2, /etc/tenure/scim-reader.token]
#
# A group has the `externalId` `tenure:TENANT:EPOCH:STEP`. A tenant's `Credentials` are the memberships in its first group, for the users in
# OWNERS/TENANT (one user name per line). While a tenant is frozen, its members are in a group of the same name with the suffix ` (frozen)`.
# `read_only` keeps the members, so that they can export their data.
set -euo pipefail
shopt -s inherit_errexit

url=${1:?the base URL of the service} token=${2:?the file with the token} owners=${3:-}
request=$(cat)
field() { jq -er "$1" <<<"$request"; }
arg() { jq -r ".arguments[\"$1\"] // \"\"" <<<"$request"; }
answer() { jq -nc --argjson output "${1:-null}" '{status: "done", output: $output}'; exit 0; }
# Refusals use file descriptor 3, because they may happen inside a command substitution.
exec 3>&1
refuse() { jq -nc --arg code "$1" --arg message "$2" '{code: $code, message: $message}' >&3; exit 65; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
(umask 077 && printf 'Authorization: Bearer %s\n' "$(tr -d '\r\n' <"$token")" >"$scratch/headers")

# scim METHOD PATH [BODY]: returns 4 if the object to change does not exist.
scim() {
    local status code=0
    status=$(curl --silent --show-error --max-time 20 --request "$1" --header "@$scratch/headers" --output "$scratch/body" \
        --header 'Content-Type: application/scim+json' --dump-header "$scratch/head" --write-out '%{http_code}' \
        ${3:+--data "$3"} "$url/$2") || code=$?
    case $code in
    0) ;;
    5 | 6 | 7 | 35) exit 69 ;;       # nothing was sent
    *) exit 1 ;;                     # the outcome is unknown
    esac
    case $status in
    204) ;;
    2??)
        jq -e 'type == "object"' "$scratch/body" >/dev/null 2>&1 || { echo "the answer to $1 $2 cannot be read" >&2; exit 76; }
        cat "$scratch/body"
        ;;
    404)
        if [[ $1 == PATCH ]]; then return 4; fi
        if [[ $1 != DELETE ]]; then echo "the service answers 404 to $1 $2" >&2; exit 78; fi
        ;;
    409) refuse object.foreign "the service answers 409 to $1 $2: $(cat "$scratch/body")" ;;
    401 | 403) echo "the service answers $status: $(cat "$scratch/body")" >&2; exit 77 ;;
    429 | 503)
        jq -nc --arg s "$(tr -d '\r' <"$scratch/head" | sed -n 's/^retry-after: *\([0-9]*\)$/\1/Ip')" --arg status "$status" \
            '{message: "the service answers \($status)", retry_after_seconds: ($s | tonumber? // null)}' >&3
        exit 75
        ;;
    *) echo "the service answers $status to $1 $2: $(cat "$scratch/body")" >&2; exit 1 ;;
    esac
}

# Prints all resources that match a filter, as one array.
filtered() {
    local all='[]' from=1 page query
    query=$(jq -rn --arg f "$2" '$f | @uri')
    while :; do
        page=$(scim GET "$1?filter=$query&startIndex=$from&count=100")
        all=$(jq -c --argjson page "$page" '. + ($page.Resources // [])' <<<"$all")
        from=$(($(jq length <<<"$all") + 1))
        if ((from > $(jq -r '.totalResults' <<<"$page"))); then break; fi
        # An incomplete list is an error: missing resources would count as deleted.
        [[ $(jq -r '.Resources // [] | length' <<<"$page") != 0 ]] || { echo "the list of $1 ends early, after $((from - 1))" >&2; exit 76; }
    done
    printf '%s' "$all"
}

# Prints all resources with this name. A service may ignore the filter, so the results are filtered again.
named() { # RESOURCE FIELD NAME
    filtered "$1" "$2 eq $(jq -n --arg n "$3" '$n')" |
        jq -c --arg f "$2" --arg n "$3" 'map(select(.[$f] // "" | ascii_downcase == ($n | ascii_downcase)))'
}

patch() { # GROUP OPERATION VALUE
    jq -nc --arg op "$2" --argjson value "$3" '{schemas: ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
        Operations: [{op: $op, path: "members"} + (if $value == null then {} else {value: $value} end)]}' >"$scratch/patch"
    scim PATCH "Groups/$1" "$(cat "$scratch/patch")" >/dev/null
}

make_group() { # NAME EXTERNAL-ID MEMBERS
    scim POST Groups "$(jq -nc --arg n "$1" --arg e "$2" --argjson m "$3" \
        '{schemas: ["urn:ietf:params:scim:schemas:core:2.0:Group"], displayName: $n, externalId: $e, members: $m}')" >/dev/null
}

# Reads a tenant's groups, oldest first (the oldest identifies them all), and its frozen groups.
read_groups() {
    local found
    found=$(filtered Groups "externalId sw \"tenure:$1:\"" | jq -c --arg t "tenure:$1:" 'map(select(.externalId // "" | startswith($t)))')
    groups=$(jq -c '[.[] | select(.externalId | contains(":frozen:") | not)] | sort_by([.meta.created, .id])' <<<"$found")
    frozen=$(jq -c '[.[] | select(.externalId | contains(":frozen:"))]' <<<"$found")
}

show_groups() {
    jq -nc --argjson g "$groups" --argjson f "$frozen" --arg t "$tenant" 'if ($g + $f) == [] then null else
        {kind: "Groups", name: "t-\($t)", tenant: $t, uid: ($g[0].id // "leftover"), groups: [$g[].displayName],
         step: (($g[0].externalId // "") | sub("^tenure:[^:]*:[0-9]*:"; ""))}
        + (if $f == [] then {} else {admits: "nothing"} end) end'
}

show_credentials() {
    jq -nc --argjson g "$groups" --argjson f "$frozen" --arg t "$tenant" '
        (($g[0].members // []) + [$f[] | select(.externalId == "tenure:\($t):frozen:\($g[0].id // "")") | .members[]?]) as $members
        | if $members == [] then null else
          {kind: "Credentials", name: "t-\($t)", tenant: $t, uid: $g[0].id, step: ($g[0].externalId | sub("^tenure:[^:]*:[0-9]*:"; ""))} end'
}

freeze() {
    local group id name members
    while read -r group; do
        id=$(jq -r .id <<<"$group") name=$(jq -r .displayName <<<"$group")
        members=$(jq -c '[.members[]? | {value}]' <<<"$group")
        if [[ $members == '[]' ]]; then continue; fi
        there=$(jq -r --arg e "tenure:$tenant:frozen:$id" '.[] | select(.externalId == $e) | .id' <<<"$frozen")
        # Adds the members to the frozen group before it removes them here, so an interrupted run can be repeated.
        if [[ -n $there ]]; then patch "$there" add "$members"; else make_group "$name (frozen)" "tenure:$tenant:frozen:$id" "$members"; fi
        patch "$id" remove null
    done < <(jq -c '.[]' <<<"$groups")
}

thaw() {
    local group members
    while read -r group; do
        members=$(jq -c '[.members[]? | {value}]' <<<"$group")
        if [[ $members != '[]' ]]; then patch "$(jq -r '.externalId | sub("^tenure:[^:]*:frozen:"; "")' <<<"$group")" add "$members"; fi
        scim DELETE "Groups/$(jq -r .id <<<"$group")" >/dev/null
    done < <(jq -c '.[]' <<<"$frozen")
}

# Selects the groups of this step, from any attempt.
own='select(.externalId // "" | startswith("tenure:\($t):") and endswith(":\($s)"))'
of_step() { jq -r --arg t "$tenant" --arg s "$(field .step)" "$1" <<<"$2"; }

# Deletes this step's groups and refuses: of two concurrent steps the later one yields, because the service accepts duplicate names.
give_way() {
    local id
    read_groups "$tenant"
    for id in $(of_step ".[] | $own | .id" "$groups"); do scim DELETE "Groups/$id" >/dev/null; done
    refuse object.foreign "$1"
}

# Of two concurrent steps for one tenant, the one with the oldest group wins.
make_groups() {
    local name there id
    while read -r name; do
        there=$(named Groups displayName "$name")
        id=$(jq -r --arg t "tenure:$tenant:" '[.[] | select(.externalId // "" | startswith($t) | not)] | .[0].id // ""' <<<"$there")
        [[ -z $id ]] || give_way "the group $name exists and belongs to another owner"
        if [[ -z $(of_step "[.[] | $own] | .[0].id // \"\"" "$there") ]]; then
            make_group "$name" "tenure:$tenant:$(field .epoch):$(field .step)" '[]'
            there=$(named Groups displayName "$name")
        fi
        # Of two attempts of this step, the older group stays.
        for id in $(of_step "[.[] | $own] | sort_by([.meta.created, .id]) | .[1:][].id" "$there"); do scim DELETE "Groups/$id" >/dev/null; done
    done < <(jq -r '.arguments.groups[]' <<<"$request")
    read_groups "$tenant"
    [[ -n $(of_step ".[0] | $own | .id" "$groups") ]] || give_way "another step made groups for $tenant"
}

# Rejects a call with an older epoch than the step's groups: a newer attempt has replaced it.
fenced() {
    local late
    late=$(of_step "[.[] | $own | .externalId | sub(\"^tenure:[^:]*:\"; \"\") | sub(\":.*\"; \"\") | tonumber] | max // 0" "$groups")
    if (($(field .epoch) < late)); then echo "a newer attempt of this step has already run" >&2; exit 80; fi
}

hand_over() {
    local member id members='[]'
    [[ -n $owners && -s $owners/$tenant ]] || refuse platform.refused "list the administrators of $tenant in ${owners:-the folder of owners}/$tenant, one user name per line"
    while read -r member; do
        [[ -n $member ]] || continue
        id=$(named Users userName "$member" | jq -r '.[0].id // ""')
        [[ -n $id ]] || refuse platform.refused "the service has no user $member, an administrator of $tenant"
        members=$(jq -c --arg id "$id" '. + [{value: $id}]' <<<"$members")
    done <"$owners/$tenant"
    patch "$(jq -r '.[0].id' <<<"$groups")" add "$members"
}

verb=$(field .verb) what=$(arg do) kind=$(arg kind)
tenant=$(field '.tenant | tostring')
if [[ -z $tenant ]]; then tenant=$(arg name) tenant=${tenant#t-}; fi
[[ $tenant =~ ^[a-z0-9-]+$ ]] || { echo "invalid tenant name: $tenant" >&2; exit 65; }
read_groups "$tenant"

case "$verb $what $kind" in
"look survey ") answer "$(jq -nc --argjson g "$(show_groups)" --argjson c "$(show_credentials)" '[$g, $c] | map(select(. != null))')" ;;
"look look Groups") answer "$(show_groups)" ;;
"look look Credentials") answer "$(show_credentials)" ;;
"look look "*) answer ;;
"run make Groups") make_groups; answer ;;
"run make Credentials") hand_over; answer ;;
"run admit Groups") if [[ $(arg admits) == nothing ]]; then freeze; else thaw; fi; answer ;;
"run remove Groups")
    fenced
    if [[ $groups == '[]' && $frozen == '[]' ]]; then answer; fi
    [[ $(jq -r '.[0].id // "leftover"' <<<"$groups") == "$(arg uid)" ]] || refuse object.changed "the groups differ from the ones to remove"
    # The oldest group goes last, because it identifies them all if this run is interrupted.
    for id in $(jq -r '.[].id' <<<"$frozen") $(jq -r 'reverse | .[].id' <<<"$groups"); do scim DELETE "Groups/$id" >/dev/null; done
    answer
    ;;
"run remove Credentials")
    # If the groups are deleted concurrently, their memberships are gone too.
    for id in $(jq -r '.[].id' <<<"$groups"); do patch "$id" remove null || [[ $? == 4 ]]; done
    for id in $(jq -r '.[].id' <<<"$frozen"); do scim DELETE "Groups/$id" >/dev/null; done
    answer
    ;;
*) echo "not supported: $verb $what $kind" >&2; exit 78 ;;
esac
