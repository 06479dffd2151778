#!/usr/bin/env bash
# Builds a Debian package from a compiled program.
#
#   deb.sh [PROGRAM] [FOLDER]       default: target/dist/tenure and target/packages; prints the path of the package
#
# With the program of static.sh, the package needs no particular glibc, but cannot run as an agent on nodes with GPUs.
# The same program, sources and SOURCE_DATE_EPOCH (default: time of the last commit) give the same bytes. TENURE_MAINTAINER is the
# maintainer; DEB_COMPRESSION is dpkg-deb's compression (default: xz). Needs dpkg-deb, strip and objdump of binutils, and, for the licences
# of third-party crates, cargo and jq.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
program=${1:-$root/target/dist/tenure}
folder=${2:-$root/target/packages}
[ -x "$program" ] || { echo "deb: $program does not exist; build it with: cargo build --profile dist -p tenure-cli --bin tenure --no-default-features --features packaged" >&2; exit 2; }

version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)
arch=$(dpkg --print-architecture)
maintainer=${TENURE_MAINTAINER:-Tenure maintainers <tenure@$(hostname -f 2>/dev/null || hostname)>}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
chmod 0755 "$tree"
doc=$tree/usr/share/doc/tenure
put() { install -D -m "$1" "$2" "$tree/$3"; }

put 0755 "$program" usr/bin/tenure
strip --strip-unneeded --remove-section=.comment --remove-section=.note "$tree/usr/bin/tenure"
put 0644 "$here/systemd/tenure.service" lib/systemd/system/tenure.service
put 0644 "$here/systemd/tenure-agent.service" lib/systemd/system/tenure-agent.service
put 0644 "$here/deb/tenure.toml" etc/tenure/tenure.toml
put 0644 "$here/deb/tenure.default" etc/default/tenure
put 0644 "$here/deb/tenure-agent.default" etc/default/tenure-agent
put 0644 "$here/kubernetes/rbac.yaml" usr/share/tenure/kubernetes/rbac.yaml
for file in "$here"/observability/*.yaml; do put 0644 "$file" "usr/share/tenure/observability/${file##*/}"; done
for file in "$here"/observability/dashboards/*.json; do put 0644 "$file" "usr/share/tenure/observability/dashboards/${file##*/}"; done
put 0644 "$here/deb/tenure.1" usr/share/man/man1/tenure.1
(cd "$root/docs" && find . -name '*.md' -not -path './examples/*') | while read -r page; do
    put 0644 "$root/docs/$page" "usr/share/doc/tenure/${page#./}"
done
for file in acme.yaml nodes.csv morning-peak.yaml; do put 0644 "$root/docs/examples/$file" "usr/share/doc/tenure/examples/$file"; done
# The documentation has a changelog for users. This one is for Debian's tools.
mv "$doc/changelog.md" "$doc/NEWS.md"
cat >"$doc/changelog" <<TEXT
tenure ($version) unstable; urgency=medium

  * What changed is in NEWS.md.gz.

 -- $maintainer  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
TEXT
cat >"$doc/copyright" <<TEXT
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: tenure

Files: *
Copyright: 2026 the authors of Tenure
License: Apache-2.0
 On Debian systems the text of this licence is in /usr/share/common-licenses/Apache-2.0.
 .
 The program contains third-party crates under their own licences. THIRD-PARTY.txt.gz lists them, with the licence texts.
TEXT
"$here/notices.sh" >"$doc/THIRD-PARTY.txt"
find "$doc" "$tree/usr/share/man" -type f \( -name '*.md' -o -name changelog -o -name THIRD-PARTY.txt -o -name '*.1' \) -exec gzip -9n {} +
find "$tree" -type d -exec chmod 0755 {} +

# A static program (static.sh) has no symbol versions of glibc and does not depend on it.
glibc=$({ objdump -T "$tree/usr/bin/tenure" 2>/dev/null || true; } | { grep -o 'GLIBC_[0-9.]*' || true; } | sort -Vu | tail -n 1)
# Packed relocations (api/program/relocations.rs) need glibc 2.36, whatever the symbol versions say.
if objdump -p "$tree/usr/bin/tenure" | grep -q GLIBC_ABI_DT_RELR; then
    glibc=$(printf '%s\n' "$glibc" GLIBC_2.36 | sort -V | tail -n 1)
fi
needs=adduser
if [ -n "$glibc" ]; then
    needs="libc6 (>= ${glibc#GLIBC_}), $needs"
elif objdump -p "$tree/usr/bin/tenure" | grep -q 'NEEDED'; then
    echo "deb: $program needs libraries, but has no symbol version of glibc" >&2
    exit 1
fi
if objdump -p "$tree/usr/bin/tenure" | grep -q 'NEEDED *libgcc_s'; then needs="$needs, libgcc-s1 (>= 4.2)"; fi
size=$(du -k -s "$tree" | cut -f 1)
mkdir "$tree/DEBIAN"
cat >"$tree/DEBIAN/control" <<TEXT
Package: tenure
Version: $version
Architecture: $arch
Maintainer: $maintainer
Installed-Size: $size
Depends: $needs
Recommends: ca-certificates
Section: admin
Priority: optional
Description: control plane for GPU tenants
 Tenure runs the lifecycle of GPU tenants as explicit state machines:
 durable, approvable, compensable. It decides and remembers; Kubernetes,
 Slurm, Kueue, NVML, object and key stores do the work.
 .
 The package has the server, the command line, the agent for nodes with
 GPUs, and alerts and dashboards for Prometheus and Grafana.
TEXT
(cd "$tree" && find etc -type f | sort | sed 's,^,/,') >"$tree/DEBIAN/conffiles"
for script in postinst prerm postrm; do put 0755 "$here/deb/$script" "DEBIAN/$script"; done
(cd "$tree" && find usr lib -type f -print0 | sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"
find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

mkdir -p "$folder"
package=$folder/tenure_${version}_$arch.deb
dpkg-deb --root-owner-group -Z"${DEB_COMPRESSION:-xz}" --build "$tree" "$package" >/dev/null
echo "$package"
