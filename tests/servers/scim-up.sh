#!/usr/bin/env bash
# Starts a SCIM 2.0 service on a free port of loopback, in the foreground; the first line on stdout is `Serving SCIM on URL`.
#
#   scim-up.sh TOKEN...        needs python3 with venv; pip installs its packages once for each machine
#   scim-up.sh --prepare       only installs
set -euo pipefail

version=0.8.3
cache=${TENURE_CACHE:-$HOME/.cache/tenure}/scim2-server-$version
mkdir -p "$cache"
(
    flock 9
    if [ ! -e "$cache/complete" ]; then
        python3 -m venv "$cache/venv" >&2
        "$cache/venv/bin/pip" install --quiet --disable-pip-version-check "scim2-server==$version" >&2
        : >"$cache/complete"
    fi
) 9>"$cache.lock"
[ "${1:?a token}" = --prepare ] && exit 0

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
tokens=()
for token in "$@"; do tokens+=(--bearer-token "$token"); done
exec env PYTHONUNBUFFERED=1 "$cache/venv/bin/scim2-server" --port "$port" "${tokens[@]}" 2>/dev/null
