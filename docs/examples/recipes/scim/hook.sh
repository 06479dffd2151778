#!/usr/bin/env bash
# The system `identity` behind a SCIM 2.0 service (RFC 7644): a tenant's groups, and who administers it.
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
# A group bears `externalId` `tenure:TENANT:EPOCH:STEP`, by which it is found again. What is handed over to a tenant (its `Credentials`) is
# membership in the first of its groups, for those whose user names stand in OWNERS/TENANT, one a line. While a tenant is let in no more
# its members wait in a group of the same name with ` (frozen)` after it; `read_only` leaves people in, since they fetch their data then.
set -euo pipefail
shopt -s inherit_errexit

url=${1:?the base URL of the service} token=${2:?the file with the token} owners=${3:-}
request=$(cat)
field() { jq -er "$1" <<<"$request"; }
arg() { jq -r ".arguments[\"$1\"] // \"\"" <<<"$request"; }
answer() { jq -nc --argjson output "${1:-null}" '{status: "done", output: $output}'; exit 0; }
# Its own way out: what refuses may run where the output is read by this program.
exec 3>&1
refuse() { jq -nc --arg code "$1" --arg message "$2" '{code: $code, message: $message}' >&3; exit 65; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
(umask 077 && printf 'Authorization: Bearer %s\n' "$(tr -d '\r\n' <"$token")" >"$scratch/headers")

# scim METHOD PATH [BODY]: fails with 4 where what was to be changed is no more.
scim() {
    local status code=0
    status=$(curl --silent --show-error --max-time 20 --request "$1" --header "@$scratch/headers" --output "$scratch/body" \
        --header 'Content-Type: application/scim+json' --dump-header "$scratch/head" --write-out '%{http_code}' \
        ${3:+--data "$3"} "$url/$2") || code=$?
    case $code in
    0) ;;
    5 | 6 | 7 | 35) exit 69 ;;       # nothing was sent
    *) exit 1 ;;                     # nobody knows what became of it
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

# All resources that a filter lets through, as one array.
filtered() {
    local all='[]' from=1 page query
    query=$(jq -rn --arg f "$2" '$f | @uri')
    while :; do
        page=$(scim GET "$1?filter=$query&startIndex=$from&count=100")
        all=$(jq -c --argjson page "$page" '. + ($page.Resources // [])' <<<"$all")
        from=$(($(jq length <<<"$all") + 1))
        if ((from > $(jq -r '.totalResults' <<<"$page"))); then break; fi
        # A list that breaks off is no list: what it leaves out would pass for gone.
        [[ $(jq -r '.Resources // [] | length' <<<"$page") != 0 ]] || { echo "the list of $1 breaks off after $((from - 1))" >&2; exit 76; }
    done
    printf '%s' "$all"
}

# All whose name is this one. A service may take no notice of a filter: what it lets through is looked at again.
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

# Of a tenant: its own groups, the eldest first, which is the identity of all; the frozen ones apart.
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
        # First they are in both, then in the one alone: whatever dies between is done again.
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

# What this step made, whichever attempt it was.
own='select(.externalId // "" | startswith("tenure:\($t):") and endswith(":\($s)"))'
of_step() { jq -r --arg t "$tenant" --arg s "$(field .step)" "$1" <<<"$2"; }

# Takes back what this step made, which the younger of two does who make the same at once: the service takes groups of one name twice.
give_way() {
    local id
    read_groups "$tenant"
    for id in $(of_step ".[] | $own | .id" "$groups"); do scim DELETE "Groups/$id" >/dev/null; done
    refuse object.foreign "$1"
}

# Of two steps that make groups for one tenant at once, whoever made the eldest group stays.
make_groups() {
    local name there id
    while read -r name; do
        there=$(named Groups displayName "$name")
        id=$(jq -r --arg t "tenure:$tenant:" '[.[] | select(.externalId // "" | startswith($t) | not)] | .[0].id // ""' <<<"$there")
        [[ -z $id ]] || give_way "somebody else made the group $name"
        if [[ -z $(of_step "[.[] | $own] | .[0].id // \"\"" "$there") ]]; then
            make_group "$name" "tenure:$tenant:$(field .epoch):$(field .step)" '[]'
            there=$(named Groups displayName "$name")
        fi
        # Of one attempt and another that was thought dead the elder's stays.
        for id in $(of_step "[.[] | $own] | sort_by([.meta.created, .id]) | .[1:][].id" "$there"); do scim DELETE "Groups/$id" >/dev/null; done
    done < <(jq -r '.arguments.groups[]' <<<"$request")
    read_groups "$tenant"
    [[ -n $(of_step ".[0] | $own | .id" "$groups") ]] || give_way "another step made groups for $tenant"
}

# A call of this step that is older than what the step has made comes from somebody who was replaced.
fenced() {
    local late
    late=$(of_step "[.[] | $own | .externalId | sub(\"^tenure:[^:]*:\"; \"\") | sub(\":.*\"; \"\") | tonumber] | max // 0" "$groups")
    if (($(field .epoch) < late)); then echo "a later holder of this step has acted" >&2; exit 80; fi
}

hand_over() {
    local member id members='[]'
    [[ -n $owners && -s $owners/$tenant ]] || refuse platform.refused "write who administers $tenant to ${owners:-the folder of owners}/$tenant, a user name a line"
    while read -r member; do
        [[ -n $member ]] || continue
        id=$(named Users userName "$member" | jq -r '.[0].id // ""')
        [[ -n $id ]] || refuse platform.refused "the service knows no user $member, who is to administer $tenant"
        members=$(jq -c --arg id "$id" '. + [{value: $id}]' <<<"$members")
    done <"$owners/$tenant"
    patch "$(jq -r '.[0].id' <<<"$groups")" add "$members"
}

verb=$(field .verb) what=$(arg do) kind=$(arg kind)
tenant=$(field '.tenant | tostring')
if [[ -z $tenant ]]; then tenant=$(arg name) tenant=${tenant#t-}; fi
[[ $tenant =~ ^[a-z0-9-]+$ ]] || { echo "$tenant is no tenant" >&2; exit 65; }
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
    [[ $(jq -r '.[0].id // "leftover"' <<<"$groups") == "$(arg uid)" ]] || refuse object.changed "these are other groups than those that were to be removed"
    # The eldest last: it is the identity of all, for whoever goes on after a death in between.
    for id in $(jq -r '.[].id' <<<"$frozen") $(jq -r 'reverse | .[].id' <<<"$groups"); do scim DELETE "Groups/$id" >/dev/null; done
    answer
    ;;
"run remove Credentials")
    # Where the groups are removed at the same time, nobody is a member any more.
    for id in $(jq -r '.[].id' <<<"$groups"); do patch "$id" remove null || [[ $? == 4 ]]; done
    for id in $(jq -r '.[].id' <<<"$frozen"); do scim DELETE "Groups/$id" >/dev/null; done
    answer
    ;;
*) echo "there is no $verb $what of $kind here" >&2; exit 78 ;;
esac
