#!/usr/bin/env bash
# Builds one program that needs no library of the system it runs on, and checks that it is one.
#
#   static.sh [PROGRAM]             by default into target/packages/tenure-static; prints the program's path
#   static.sh --check PROGRAM       only checks a program that is built already
#
# With musl where rustc and the C compiler have it, else with glibc, from 2.34 on: from there on files and DNS are asked for names without
# a library beside. TARGET names another of rustc's targets, PROFILE another profile than dist, STATIC_TARGET_DIR another folder to build in.
# Without NVML and PKCS#11: those are libraries that a program loads, which a static one cannot. So it is no agent for nodes with GPUs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
fail() { echo "static: $*" >&2; exit 1; }

# Whether $1 is static, runs, and finds a name as others do.
check() {
    local program=$1 said
    [ -x "$program" ] || fail "$program is not there"
    if command -v file >/dev/null 2>&1; then
        said=$(file -b "$program")
        case $said in *"statically linked"* | *"static-pie linked"*) ;; *) fail "$program is not static: $said" ;; esac
    fi
    # glibc's says so of any static program, and musl's fails for it; what names a library does neither.
    said=$(ldd "$program" 2>&1 || true)
    case $said in *"=>"* | *ld-linux*) fail "$program needs libraries: $said" ;; esac
    "$program" --version >/dev/null || fail "$program does not run"
    # Nobody listens on port 1. That it gets so far shows that /etc/hosts was read.
    said=$(env -u TENURE_CONTEXT XDG_CONFIG_HOME=/nonexistent "$program" --server http://localhost:1 --token x tenants list 2>&1 || true)
    case $said in *"refused"*) ;; *) fail "$program does not find localhost: $said" ;; esac
}

if [ "${1:-}" = --check ]; then
    check "${2:?static: name the program}"
    echo "$2"
    exit
fi
out=${1:-$root/target/packages/tenure-static}
profile=${PROFILE:-dist}
folder=${STATIC_TARGET_DIR:-$root/target/static}
host=$(rustc -vV | sed -n 's/^host: //p')
arch=${host%%-*}

has_musl() {
    [ -d "$(rustc --print sysroot)/lib/rustlib/$arch-unknown-linux-musl/lib" ] &&
        { command -v musl-gcc >/dev/null 2>&1 || command -v "$arch-linux-musl-gcc" >/dev/null 2>&1; }
}
target=${TARGET:-}
if [ -z "$target" ]; then
    if has_musl; then target=$arch-unknown-linux-musl; else target=$arch-unknown-linux-gnu; fi
fi
flags=${RUSTFLAGS:-}
case $target in
*-gnu)
    glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null | sed 's/^glibc //')
    [ -n "$glibc" ] || fail "this machine has no glibc: install rustc's target for musl, and musl-gcc"
    [ "$(printf '%s\n2.34\n' "$glibc" | sort -V | head -n 1)" = 2.34 ] || fail "glibc $glibc finds no names in a static program: 2.34 does"
    flags="$flags -C target-feature=+crt-static"
    ;;
esac
# All of a package, but for what loads libraries.
features=$(sed -n 's/^packaged = \[\(.*\)\]$/\1/p' "$root/api/cli/Cargo.toml" | tr -d '" ' | tr ',' '\n' | grep -vxE 'nvml|pkcs11' | paste -s -d ,)
[ -n "$features" ] || fail "api/cli/Cargo.toml names no features of packages"

# Named as a target, so that what is built for the build itself (macros, which are loaded) is not static.
(cd "$root" && RUSTFLAGS=$flags cargo build --locked -p cli --bin tenure --profile "$profile" --target "$target" \
    --target-dir "$folder" --no-default-features --features "$features" >&2)
case $profile in dev) built=debug ;; *) built=$profile ;; esac
install -D -m 0755 "$folder/$target/$built/tenure" "$out"
check "$out"
echo "$out"
