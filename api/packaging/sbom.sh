#!/usr/bin/env bash
# Writes a software bill of materials (CycloneDX 1.5, JSON) to standard output: every crate of the program, including macros, with its
# version, licence and checksum from Cargo.lock.
#
#   sbom.sh [TARGET]       default: this machine's target; needs cargo and jq, and no network if the crates are downloaded
#
# Excludes crates that only tests or builds need. The same Cargo.lock gives the same bytes.
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
    | (.packages[] | select(.name == "tenure-cli" and .source == null) | .id) as $root
    | def ref: $package[.] | "pkg:cargo/\(.name)@\(.version)";
    # The transitive dependencies of the program.
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
