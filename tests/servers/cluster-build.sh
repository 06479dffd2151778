#!/usr/bin/env bash
# Builds Kubernetes and what the tests run beside it, from Go modules, once for each version and machine.
#
#   cluster-build.sh [VERSION]        newest (the default), oldest, or one such as v1.36.3; prints the folder of the programs on its last line
#   cluster-build.sh --has VERSION    ends with 1 if that version is not built yet
#
# The folder is ${TENURE_CACHE:-~/.cache/tenure}/kubernetes-VERSION: kube-apiserver, kube-controller-manager, kube-scheduler, kubectl and kubelet,
# with links to what does not depend on the version: etcd, kueue, kwok, device-plugin, and the objects that come with their sources. Nothing
# is downloaded as a program.
# The first version takes a quarter of an hour on two idle cores, another one six minutes. Two builds at once wait for each other; a killed
# build leaves nothing that a later one would take for a result.
set -euo pipefail

newest=v1.37.2 oldest=v1.34.4
# Debian's etcd 3.4 is too old: clients of 1.36 and later wait for the progress of watches, which it does not report.
etcd=v3.7.3 kueue=v0.17.0 kwok=v0.8.0 gateway=v1.5.0
programs=(kube-apiserver kube-controller-manager kube-scheduler kubectl kubelet)

here=$(cd "$(dirname "$0")" && pwd)
cache=${TENURE_CACHE:-$HOME/.cache/tenure}
asked=build
if [ "${1:-}" = --has ]; then asked=has; shift; fi
version=${1:-newest}
case $version in
newest) version=$newest ;;
oldest) version=$oldest ;;
v1.*.*) ;;
*)
    echo "cluster-build: no version: $version; say newest, oldest, or one such as $newest" >&2
    exit 2
    ;;
esac
result=$cache/kubernetes-$version
beside=$cache/kubernetes-beside-$(cat "$here"/device-plugin/* <(echo "$newest $etcd $kueue $kwok $gateway") | sha256sum | cut -c 1-16)

complete() { [ -d "$beside" ] && [ -d "$result" ] && [ "$(readlink "$result/etcd")" = "$beside/etcd" ]; }
if [ $asked = has ]; then
    complete
    exit
fi
if complete; then # and does not wait for the build of another version
    echo "$result"
    exit 0
fi

mkdir -p "$cache"
exec 9>"$cache/kubernetes.lock"
flock 9
if complete; then
    echo "$result"
    exit 0
fi

go_version=$(go env GOVERSION 2>/dev/null || true)
if [[ ! $go_version =~ ^go1\.([0-9]+) ]] || [ "${BASH_REMATCH[1]}" -lt 26 ]; then
    echo "cluster-build: missing: Go 1.26 or later in the PATH (here: ${go_version:-none}); see https://go.dev/dl" >&2
    exit 3
fi
command -v jq >/dev/null || { echo "cluster-build: missing: jq; install it with: sudo apt-get install jq" >&2; exit 3; }
export CGO_ENABLED=0 GOFLAGS=-trimpath

# All files of the build are in one folder next to the result, so that one removal deletes them.
tree=$(mktemp -d "$cache/cluster-build.XXXXXX")
trap 'rm -rf "$tree"' EXIT
say() { printf 'cluster-build: %s (after %d s)\n' "$*" "$SECONDS" >&2; }
compile() { nice -n 15 go build -ldflags "-s -w ${flags:-}" -o "$@" >&2; } # where packages…
put() { # folder place: what is there before, an older or a partial one, is replaced
    rm -rf "$2"
    mv "$1" "$2"
}

# A module of ours that requires Kubernetes. Kubernetes' own go.mod names its modules k8s.io/* as v0.0.0 and replaces them by folders of its
# source, which has no effect where it is a dependency: ours replaces each with its published version, v0.37.2 for v1.37.2.
kubernetes_module() { # folder version
    local source module
    mkdir -p "$1"
    cd "$1"
    go mod init tenure.test/kubernetes 2>/dev/null
    go mod edit -require "k8s.io/kubernetes@$2"
    source=$(go mod download -json "k8s.io/kubernetes@$2" | jq -r .Dir)
    for module in $(awk '/^\tk8s.io\/.* => .\/staging/ {print $1}' "$source/go.mod" | sort -u); do
        go mod edit -replace "$module=$module@v0.${2#v1.}"
    done
    {
        printf 'package needed\n\nimport (\n'
        printf '\t_ "k8s.io/kubernetes/cmd/%s"\n' "${programs[@]}"
        printf ')\n'
    } >needed.go
    go mod tidy >/dev/null 2>&1 || go mod tidy >&2
}
# Without these the server calls itself v0.0.0-master.
kubernetes_flags() { # version
    local is=k8s.io/component-base/version
    local minor=${1#v1.}
    echo "-X $is.gitVersion=$1 -X $is.gitMajor=1 -X $is.gitMinor=${minor%%.*} -X $is.gitTreeState=clean"
}

if [ ! -d "$result" ]; then
    say "Kubernetes $version"
    kubernetes_module "$tree/module" "$version"
    mkdir "$tree/programs"
    flags=$(kubernetes_flags "$version") compile "$tree/programs/" "${programs[@]/#/k8s.io/kubernetes/cmd/}"
    for program in "${programs[@]}"; do [ -x "$tree/programs/$program" ]; done
    put "$tree/programs" "$result"
fi

if [ ! -d "$beside" ]; then
    rm -rf "$cache"/kubernetes-beside-*
    mkdir "$tree/beside"
    tool() { # name package version
        say "$1 $3"
        mkdir "$tree/$1"
        cd "$tree/$1"
        go mod init "tenure.test/$1" 2>/dev/null
        go get -tool "$2@$3" >&2
        compile "$tree/beside/$1" "$2"
    }
    tool etcd go.etcd.io/etcd/server/v3 "$etcd"
    tool kueue sigs.k8s.io/kueue/cmd/kueue "$kueue"
    tool kwok sigs.k8s.io/kwok/cmd/kwok "$kwok"
    say "device-plugin"
    cp -r "$here/device-plugin" "$tree/device-plugin"
    cd "$tree/device-plugin"
    compile "$tree/beside/device-plugin" .
    # Their objects come with the modules.
    modules=$(go env GOMODCACHE)
    "$result/kubectl" kustomize "$modules/sigs.k8s.io/kueue@$kueue/config/default" >"$tree/beside/kueue.yaml"
    for stage in node/fast node/heartbeat-with-lease pod/general; do
        "$result/kubectl" kustomize "$modules/sigs.k8s.io/kwok@$kwok/kustomize/stage/$stage"
        echo ---
    done >"$tree/beside/kwok-stages.yaml"
    routes=$(go mod download -json "sigs.k8s.io/gateway-api@$gateway" | jq -r .Dir)/config/crd/standard/gateway.networking.k8s.io_httproutes.yaml
    install -m 0644 "$routes" "$tree/beside/httproutes.yaml"
    put "$tree/beside" "$beside"
fi
for file in "$beside"/*; do ln -sfn "$file" "$result/${file##*/}"; done
say "done"
echo "$result"
