#!/usr/bin/env bash
# Builds the real kube-apiserver and kube-controller-manager 1.20.2 for the tests, once per machine.
#
#   kubernetes-build.sh        prints the folder with the two binaries on its last line
#
# No package of Debian bookworm has an API server as a binary, but its source package contains the whole upstream tree,
# which Debian's own Go 1.19 builds without the network. That takes about a quarter of an hour on two slow cores and
# 2.7 GB of disk meanwhile; the result (about 210 MB) is stored in ${TENURE_CACHE:-~/.cache/tenure}/kubernetes-1.20.2.
# Two builds at once wait for each other; a killed build leaves nothing that a later one would take for a result.
set -euo pipefail

version=1.20.2
source_version='1.20.5+really1.20.2-1.1+deb12u1'
cache=${TENURE_CACHE:-$HOME/.cache/tenure}
result=$cache/kubernetes-$version
made=(kube-apiserver kube-controller-manager)

complete() { [ -x "$result/kube-apiserver" ] && [ -x "$result/kube-controller-manager" ]; }

mkdir -p "$cache"
exec 9>"$cache/kubernetes-$version.lock"
flock 9
if complete; then
    echo "$result"
    exit 0
fi

needed=(golang-1.19-go golang-github-modern-go-reflect2-dev jq rsync make gcc libc6-dev)
missing=()
for package in "${needed[@]}"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
    if [ "$(id -u)" != 0 ]; then
        echo "kubernetes-build: missing packages: ${missing[*]}; install them with: sudo apt-get install ${missing[*]}" >&2
        exit 3
    fi
    echo "kubernetes-build: installing ${missing[*]}, which the build of the API server needs" >&2
    apt-get update -qq >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
fi

# All files of the build are in one folder next to the result, so that one removal deletes them.
tree=$(mktemp -d "$cache/kubernetes-build.XXXXXX")
trap 'chmod -R u+w "$tree" 2>/dev/null || true; rm -rf "$tree"' EXIT

# The source package is downloaded with separate package lists: the lists of the system do not change.
mkdir -p "$tree"/{lists/partial,archives/partial,package,go,home}
mirror=$(sed -n 's/^URIs:[[:space:]]*//p' /etc/apt/sources.list.d/debian.sources 2>/dev/null | head -n 1)
mirror=${mirror:-$(awk '$1 == "deb" {print $2; exit}' /etc/apt/sources.list 2>/dev/null || true)}
if [ -z "$mirror" ]; then
    echo "kubernetes-build: no address of Debian's archive in /etc/apt: name it in /etc/apt/sources.list" >&2
    exit 3
fi
echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror bookworm main" >"$tree/sources.list"
own_lists=(-o "Dir::Etc::SourceList=$tree/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$tree/lists" -o "Dir::Cache=$tree" -o APT::Sandbox::User=root)
apt-get "${own_lists[@]}" update -qq >&2
(cd "$tree/package" && apt-get "${own_lists[@]}" source --download-only -qq "kubernetes=$source_version" >&2)

mkdir "$tree/kubernetes"
tar -xzf "$tree"/package/kubernetes_*.orig.tar.gz -C "$tree/kubernetes" --strip-components=1
cd "$tree/kubernetes"

# The vendored reflect2 1.0.1 reads the internals of maps as in Go 1.17. Built with a newer Go it crashes the server
# ("fatal error: fault") at the first object of a custom resource. Debian's 1.0.2 does not.
rm -rf vendor/github.com/modern-go/reflect2
cp -r /usr/share/gocode/src/github.com/modern-go/reflect2 vendor/github.com/modern-go/reflect2
find vendor/github.com/modern-go/reflect2 -name '*_test.go' -delete
rm -rf vendor/github.com/modern-go/reflect2/test

export PATH=/usr/lib/go-1.19/bin:$PATH HOME="$tree/home" GOPATH="$tree/kubernetes/.go" GOCACHE="$tree/go" GOPROXY=off
export CGO_ENABLED=0 GOFLAGS="-p=${JOBS:-1}" GOMAXPROCS="${JOBS:-1}"
# Without a git checkout the build reads the server's version from these.
export KUBE_GIT_VERSION="v$version" KUBE_GIT_COMMIT=debian KUBE_GIT_TREE_STATE=archive KUBE_GIT_MAJOR=1 KUBE_GIT_MINOR=20
mkdir -p .go/src/k8s.io
ln -s "$tree/kubernetes" .go/src/k8s.io/kubernetes
make -j1 WHAT="${made[*]/#/cmd/}" >&2

mkdir -p "$result.partly"
for binary in "${made[@]}"; do
    install -m 0755 "_output/local/bin/linux/amd64/$binary" "$result.partly/$binary"
done
rm -rf "$result"
mv "$result.partly" "$result"
echo "$result"
