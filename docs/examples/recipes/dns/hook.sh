#!/usr/bin/env bash
# The system `network` behind a name server that takes dynamic updates (RFC 2136): the records at and under `TENANT.ZONE`.
#
#   systems:
#     network:
#       hook:
#         exec:
#           program: /opt/tenure/hooks/dns/hook.sh
#           arguments: [ns1.example, "53", gpus.example, /etc/tenure/update.key]
#       verifier:
#         exec:
#           program: /opt/tenure/hooks/dns/hook.sh
#           arguments: [ns2.example, "53", gpus.example, /etc/tenure/transfer.key]
#
# Needs `dig` and `nsupdate`. The hook's key must allow zone transfers and deletions. The verifier can use another server of the zone, with a
# key that allows only transfers. Records have no ids; name and type identify them.
set -euo pipefail
shopt -s inherit_errexit

server=${1:?the name server} port=${2:?its port} zone=${3:?the zone} key=${4:?the file with the key}
zone=${zone%.}. zone=${zone,,}
request=$(cat)
field() { jq -er "$1" <<<"$request"; }
arg() { jq -r ".arguments[\"$1\"] // \"\"" <<<"$request"; }
answer() { jq -nc --argjson output "${1:-null}" '{status: "done", output: $output}'; exit 0; }

# Prints names and types of a tenant's records, one per line. An incomplete transfer is an error, never an empty zone.
records() {
    local said
    said=$(dig +noall +answer +comments +time=5 +tries=2 "@$server" -p "$port" -k "$key" AXFR "$zone" 2>&1) || { echo "$said" >&2; exit 69; }
    # A complete transfer begins and ends with the SOA record.
    if [[ $(awk '$4 == "SOA"' <<<"$said" | wc -l) -lt 2 ]]; then echo "zone transfer of $zone failed: $said" >&2; exit 69; fi
    awk -v own="$1.$zone" '!/^;/ && NF > 4 { name = tolower($1)
        if (name == own || substr(name, length(name) - length(own)) == "." own) print name, $4 }' <<<"$said" | sort -u
}

show() {
    jq -Rnc --arg t "$1" '[inputs | split(" ") | (.[0] + "/" + .[1]) as $n
        | {kind: "Record", name: $n, uid: $n, tenant: $t, class: "configuration"}]'
}

verb=$(field .verb) what=$(arg do) kind=$(arg kind) name=$(arg name)
tenant=$(field '.tenant | tostring')
if [[ -z $tenant && $name == *".$zone/"* ]]; then tenant=${name%".$zone/"*} tenant=${tenant##*.}; fi
[[ $tenant =~ ^[a-z0-9-]+$ ]] || { echo "$name is not in the zone $zone" >&2; exit 65; }

case "$verb $what $kind" in
"look survey ") found=$(records "$tenant"); answer "$(show "$tenant" <<<"$found" | jq -c 'map(select(.name != "/"))')" ;;
"look look Record") found=$(records "$tenant"); answer "$(show "$tenant" <<<"$found" | jq -c --arg n "$name" 'map(select(.name == $n)) | .[0]')" ;;
"look look "*) answer ;;
"run remove Record")
    said=$(printf 'server %s %s\nzone %s\nupdate delete %s %s\nsend\n' "$server" "$port" "$zone" "${name%/*}" "${name##*/}" |
        nsupdate -k "$key" -t 20 2>&1) || {
        echo "$said" >&2
        if grep -qE 'REFUSED|NOTAUTH|BADKEY|BADSIG' <<<"$said"; then exit 77; fi
        exit 1
    }
    answer
    ;;
*) echo "not supported: $verb $what $kind" >&2; exit 78 ;;
esac
