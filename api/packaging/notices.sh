#!/usr/bin/env bash
# Writes the notices of third-party crates to standard output, as text: name, version, licence and source of every crate of the program,
# then their licence texts, each once.
#
#   notices.sh [TARGET]       default: this machine's target; needs cargo and jq, and no network if the crates are downloaded
#
# Lists the crates of sbom.sh, without those of this repository. The same Cargo.lock gives the same bytes.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
target=${1:-$(rustc -vV | sed -n 's/^host: //p')}
texts=$(mktemp -d)
trap 'rm -rf "$texts"' EXIT
"$here/sbom.sh" "$target" >"$texts/bill"
# One line for each crate: name, version, licence, source, folder of its files.
crates=$(cargo metadata --format-version 1 --locked --filter-platform "$target" | jq -r --slurpfile bill "$texts/bill" '
    ([$bill[0].components[] | {key: "\(.name)@\(.version)", value: .licenses[0].expression}] | from_entries) as $licence
    | [.packages[] | select(.source != null) | "\(.name)@\(.version)" as $key | select($licence[$key])
        | [.name, .version, $licence[$key], (.repository // .homepage // "https://crates.io/crates/\(.name)"),
            (.manifest_path | rtrimstr("/Cargo.toml"))] | @tsv]
    | sort | .[]')

version=$(jq -r .metadata.component.version "$texts/bill")
printf 'Third-party software in Tenure %s\n\n' "$version"
printf 'Tenure is licensed under Apache-2.0. The program contains the crates below, under their own licences.\nThe licence texts follow the list.\n\n'
without=()
while IFS=$'\t' read -r name number licence source folder; do
    printf '%s %s\n    %s\n    %s\n' "$name" "$number" "$licence" "$source"
    found=0
    # Also the files of C code that a crate compiles.
    while read -r file; do
        sum=$(sha256sum "$file" | cut -c 1-64)
        [ -e "$texts/$sum.text" ] || cp "$file" "$texts/$sum.text"
        printf '%s %s\n' "$name" "$number" >>"$texts/$sum.crates"
        found=1
    done < <(find "$folder" -type f \( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'copyright*' -o -iname 'notice*' -o -iname 'unlicense*' \) \
        ! -name '*.rs' ! -name '*.py' ! -name '*.go' ! -name '*.json' | sort)
    [ $found = 1 ] || without+=("$name $number")
done <<<"$crates"

if [ ${#without[@]} -gt 0 ]; then
    printf '\nThese packages contain no licence file. The licence in the list applies:\n'
    printf '    %s\n' "${without[@]}"
fi
# The texts, in the order of their first crate.
for crates in "$texts"/*.crates; do printf '%s\t%s\n' "$(head -n 1 "$crates")" "${crates%.crates}"; done | sort | while IFS=$'\t' read -r _ text; do
    printf '\n%s\nLicence text of: %s\n\n' "$(printf '=%.0s' {1..100})" "$(sort -u "$text.crates" | paste -s -d , | sed 's/,/, /g')"
    tr -d '\r' <"$text.text"
done
