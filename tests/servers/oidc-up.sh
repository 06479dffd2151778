#!/usr/bin/env bash
# Starts an OpenID provider on a free port of loopback, in the foreground; the first line on stdout is `issuer URL`.
#
#   oidc-up.sh REDIRECT_URI       needs node; npm installs its packages once for each machine
#   oidc-up.sh --prepare          only installs
set -euo pipefail

version=9.13.3
here=$(cd "$(dirname "$0")" && pwd)
cache=${TENURE_CACHE:-$HOME/.cache/tenure}/oidc-provider-$version
command -v node >/dev/null && command -v npm >/dev/null || { echo "oidc-up: needs node and npm" >&2; exit 1; }

mkdir -p "$cache"
(
    flock 9
    if [ ! -e "$cache/complete" ]; then
        npm install --prefix "$cache" --no-audit --no-fund --ignore-scripts --silent "oidc-provider@$version" >&2
        : >"$cache/complete"
    fi
) 9>"$cache.lock"
cp "$here/oidc-provider.mjs" "$cache/"
[ "${1:?the redirect URI of the client}" = --prepare ] && exit 0
exec node "$cache/oidc-provider.mjs" "$1"
