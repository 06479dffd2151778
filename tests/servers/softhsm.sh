#!/usr/bin/env bash
# Makes a token of SoftHSM, a software key store with a PKCS#11 interface. Usage: softhsm.sh DIR
#
# No process remains: it is a library, which reads DIR/softhsm2.conf if SOFTHSM2_CONF names it. DIR/env has the path of the
# library, the token's name and the path of its PIN. A repeated run keeps an existing token.
set -euo pipefail

DIR=${1:?usage: softhsm.sh DIR}
mkdir -p "$DIR/tokens"
DIR=$(cd "$DIR" && pwd)

if ! command -v softhsm2-util >/dev/null 2>&1 || ! command -v pkcs11-tool >/dev/null 2>&1; then
    if [ "$(id -u)" != 0 ]; then
        echo "softhsm: softhsm2-util or pkcs11-tool not found: apt-get install softhsm2 opensc, which needs root" >&2
        exit 3
    fi
    { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends \
        softhsm2 opensc; } >"$DIR/install.log" 2>&1 || {
        echo "softhsm: softhsm2 opensc could not be installed, see $DIR/install.log" >&2
        exit 3
    }
fi

module=
for place in /usr/lib/softhsm/libsofthsm2.so /usr/lib/*/softhsm/libsofthsm2.so /usr/lib64/pkcs11/libsofthsm2.so; do
    [ -e "$place" ] && module=$place && break
done
if [ -z "$module" ]; then
    echo "softhsm: libsofthsm2.so not found under /usr/lib: the package softhsm2 has it" >&2
    exit 3
fi

export SOFTHSM2_CONF=$DIR/softhsm2.conf
if [ ! -s "$DIR/env" ]; then
    printf 'directories.tokendir = %s/tokens\nobjectstore.backend = file\nlog.level = ERROR\n' "$DIR" >"$SOFTHSM2_CONF"
    (umask 077 && printf '1234\n' >"$DIR/pin")
    softhsm2-util --init-token --free --label tenants --pin 1234 --so-pin 4321 >/dev/null
    cat >"$DIR/env" <<ENV
SOFTHSM2_CONF=$SOFTHSM2_CONF
PKCS11_MODULE=$module
PKCS11_TOKEN=tenants
PKCS11_PIN_FILE=$DIR/pin
PKCS11_TOKENS=$DIR/tokens
ENV
fi
cat "$DIR/env"
