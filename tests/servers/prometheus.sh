#!/usr/bin/env bash
# Downloads Prometheus and promtool for the tests, once for each machine.
#
#   prometheus.sh        prints the folder with the two programs on its last line; ends with 3 if they are not available
#
# Debian's package is unpacked and not installed: it starts nothing and needs no rights. Installed programs are used as they are.
# The result (about 200 MB) is stored in ${TENURE_CACHE:-~/.cache/tenure}/prometheus.
set -euo pipefail

if command -v prometheus >/dev/null && command -v promtool >/dev/null; then
    dirname "$(command -v promtool)"
    exit 0
fi
cache=${TENURE_CACHE:-$HOME/.cache/tenure}
result=$cache/prometheus
mkdir -p "$cache"
exec 9>"$result.lock"
flock 9
if [ ! -x "$result/promtool" ] || [ ! -x "$result/prometheus" ]; then
    tree=$(mktemp -d "$cache/prometheus.XXXXXX")
    trap 'rm -rf "$tree"' EXIT
    (cd "$tree" && apt-get -o APT::Sandbox::User=root download -qq prometheus >&2) || { echo "prometheus: the package cannot be had" >&2; exit 3; }
    dpkg-deb --fsys-tarfile "$tree"/prometheus_*.deb | tar -x -C "$tree" ./usr/bin/prometheus ./usr/bin/promtool
    rm -rf "$result"
    mkdir "$tree/made"
    mv "$tree"/usr/bin/* "$tree/made/"
    mv "$tree/made" "$result"
fi
echo "$result"
