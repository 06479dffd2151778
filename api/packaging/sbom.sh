#!/usr/bin/env bash
# Writes the bill of materials of the program, as CycloneDX 1.5 in JSON, to standard output: every crate that it is made of, macros
# included, with version, licence and the checksum that Cargo.lock holds it to.
#
#   sbom.sh [TARGET]       by default the machine's own; needs cargo and jq, and no network once the crates are there
#
# Crates that only tests or builds need are not in it. The same Cargo.lock gives the same bytes.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${1:-$(rustc -vV | sed -n 's/^host: //p')}
sums=$(awk '
    /^name = /     { name = $3 }
    /^version = /  { version = $3 }
    /^checksum = / { gsub(/"/, "", name); gsub(/"/, "", version); gsub(/"/, "", $3); print name "@" version " " $3 }
' Cargo.lock | jq -Rn '[inputs | split(" ") | {key: .[0], value: .[1]}] | from_entries')

cargo metadata --format-version 1 --locked --filter-platform "$target" | jq --argjson sums "$sums" '
    . as $all
    | ([.packages[] | {key: .id, value: .}] | from_entries) as $package
    | ([.resolve.nodes[] | {key: .id, value: [.deps[] | select(any(.dep_kinds[]; .kind == null)) | .pkg]}] | from_entries) as $needs
    | (.packages[] | select(.name == "cli" and .source == null) | .id) as $root
    | def ref: $package[.] | "pkg:cargo/\(.name)@\(.version)";
    # Everything that the program needs, and what that needs.
    {seen: {}, todo: [$root]}
    | until(.todo == []; .todo[0] as $id
        | if .seen[$id] then .todo |= .[1:] else .seen[$id] = true | .todo = .todo[1:] + $needs[$id] end)
    | [.seen | keys[]] as $made_of
    | {
        bomFormat: "CycloneDX", specVersion: "1.5", version: 1,
        metadata: {component: {type: "application", "bom-ref": ($root | ref), name: "tenure", version: $package[$root].version,
            licenses: [{expression: $package[$root].license}]}},
        components: ([$made_of[] | select(. != $root) | $package[.] | "\(.name)@\(.version)" as $key | {
            type: "library", "bom-ref": "pkg:cargo/\($key)", name, version, purl: "pkg:cargo/\($key)",
            licenses: [{expression: ((.license // "NOASSERTION") | gsub("/"; " OR ") | gsub(" +"; " "))}]}
            + (if $sums[$key] then {hashes: [{alg: "SHA-256", content: $sums[$key]}]} else {} end)] | sort_by(.purl)),
        dependencies: ([$made_of[] | {ref: ref, dependsOn: ([$needs[.][] | ref] | unique)}] | sort_by(.ref))
    }'
