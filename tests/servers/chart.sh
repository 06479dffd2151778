#!/usr/bin/env bash
# Renders a chart for the tests: Helm is in no package archive, so a small program does it, built from Debian's Go libraries.
#
#   chart.sh CHART RELEASE NAMESPACE [VALUES.yaml…]       prints the objects; ends with 3 if the program cannot be built
#
# The program is stored in ${TENURE_CACHE:-~/.cache/tenure}/chart, and built again when its source changes. Only Go is installed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${TENURE_CACHE:-$HOME/.cache/tenure}
result=$cache/chart/$(sha256sum "$here/chart/main.go" | cut -c 1-16)
mkdir -p "$cache/chart"
exec 9>"$cache/chart/lock"
flock 9
if [ ! -x "$result" ]; then
    go=/usr/lib/go-1.19/bin/go
    [ -x "$go" ] || { echo "chart: golang-1.19-go is not here; kubernetes-build.sh installs it" >&2; exit 3; }
    tree=$(mktemp -d "$cache/chart/build.XXXXXX")
    trap 'chmod -R u+w "$tree"; rm -rf "$tree"' EXIT
    packages=(masterminds-sprig masterminds-semver masterminds-goutils huandu-xstrings google-uuid imdario-mergo shopspring-decimal
        mitchellh-copystructure mitchellh-reflectwalk spf13-cast burntsushi-toml)
    packages=("${packages[@]/#/golang-github-}")
    packages+=(golang-golang-x-crypto golang-golang-x-sys golang-k8s-sigs-yaml golang-gopkg-yaml.v2)
    (cd "$tree" && apt-get -o APT::Sandbox::User=root download -qq "${packages[@]/%/-dev}" >&2) ||
        { echo "chart: Debian's Go libraries cannot be had" >&2; exit 3; }
    for package in "$tree"/*.deb; do dpkg-deb -x "$package" "$tree/root"; done
    mkdir -p "$tree/src/render"
    cp "$here/chart/main.go" "$tree/src/render/"
    env GO111MODULE=off GOFLAGS=-p=1 GOPROXY=off GOCACHE="$tree/cache" GOPATH="$tree:$tree/root/usr/share/gocode" \
        "$go" build -o "$result" "$tree/src/render" >&2
    chmod -R u+w "$tree"
    rm -rf "$tree"
    trap - EXIT
fi
flock -u 9
exec "$result" "$@"
