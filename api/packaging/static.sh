#!/usr/bin/env bash
# Builds a static program that needs no system library, and checks it.
#
#   static.sh [PROGRAM]             default: target/packages/tenure-static; prints the path of the program
#   static.sh --check PROGRAM       only checks a compiled program
#
# Uses musl if rustc and the C compiler support it, otherwise glibc 2.34 or later, which reads files and DNS for names without loading a
# library. TARGET selects a target of rustc, PROFILE a profile (default: dist), STATIC_TARGET_DIR a build folder.
# The program has no NVML and no PKCS#11, because a static program cannot load libraries. It is no agent for nodes with GPUs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
fail() { echo "static: $*" >&2; exit 1; }

# Checks that $1 is static, runs, and resolves names.
check() {
    local program=$1 said
    [ -x "$program" ] || fail "$program does not exist"
    if command -v file >/dev/null 2>&1; then
        said=$(file -b "$program")
        case $said in *"statically linked"* | *"static-pie linked"*) ;; *) fail "$program is not static: $said" ;; esac
    fi
    # glibc's ldd reports that a program is static, and musl's ldd fails for it. Neither lists libraries.
    said=$(ldd "$program" 2>&1 || true)
    case $said in *"=>"* | *ld-linux*) fail "$program needs libraries: $said" ;; esac
    "$program" --version >/dev/null || fail "$program does not run"
    # Nothing listens on port 1. The refusal shows that the name was resolved with /etc/hosts.
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
    [ "$(printf '%s\n2.34\n' "$glibc" | sort -V | head -n 1)" = 2.34 ] || fail "glibc $glibc cannot resolve names in a static program; use 2.34 or later"
    flags="$flags -C target-feature=+crt-static"
    ;;
esac
# All features of a package except those that load libraries.
features=$(sed -n 's/^packaged = \[\(.*\)\]$/\1/p' "$root/api/cli/Cargo.toml" | tr -d '" ' | tr ',' '\n' | grep -vxE 'nvml|pkcs11' | paste -s -d ,)
[ -n "$features" ] || fail "api/cli/Cargo.toml has no features for packages"

# An explicit target, so that build scripts and macros, which are loaded at build time, are not static.
(cd "$root" && RUSTFLAGS=$flags cargo build --locked -p tenure-cli --bin tenure --profile "$profile" --target "$target" \
    --target-dir "$folder" --no-default-features --features "$features" >&2)
case $profile in dev) built=debug ;; *) built=$profile ;; esac
install -D -m 0755 "$folder/$target/$built/tenure" "$out"
check "$out"
echo "$out"
