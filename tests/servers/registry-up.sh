#!/usr/bin/env bash
# Starts a container registry on a free port of loopback, in the foreground; the first line on stdout is `registry URL`.
#
#   registry-up.sh DIR         its files are in DIR; users are `tenure:pw` and `reader:pw`; DIR/collect.sh collects its garbage
set -euo pipefail

dir=${1:?a folder}
command -v docker-registry >/dev/null || { echo "registry-up: needs docker-registry" >&2; exit 3; }
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
# bcrypt of `pw`.
hash='$2b$05$abcdefghijklmnopqrstuuHIrMEWpUCQe2YqFR3sXwQ75u4od..9q'
printf 'tenure:%s\nreader:%s\n' "$hash" "$hash" >"$dir/htpasswd"
cat >"$dir/registry.yml" <<END
version: 0.1
log: { level: error, accesslog: { disabled: true } }
storage: { filesystem: { rootdirectory: $dir/data }, delete: { enabled: true } }
http: { addr: 127.0.0.1:$port }
auth: { htpasswd: { realm: tests, path: $dir/htpasswd } }
END
printf '#!/bin/sh\nexec docker-registry garbage-collect --delete-untagged %s/registry.yml >/dev/null\n' "$dir" >"$dir/collect.sh"
chmod +x "$dir/collect.sh"
(
    for _ in $(seq 100); do
        if curl --silent --output /dev/null "http://127.0.0.1:$port/v2/"; then echo "registry http://127.0.0.1:$port"; exit 0; fi
        sleep 0.1
    done
) &
exec docker-registry serve "$dir/registry.yml" 2>"$dir/log"
