#!/usr/bin/env bash
# Starts a name server for the zone gpus.example on a free port of loopback, in the foreground; the first line on stdout is `port N`.
#
#   dns-up.sh DIR RECORD...    DIR/update.key may change the zone, DIR/transfer.key may read all of it
set -euo pipefail

dir=${1:?a folder}
shift
command -v knotd >/dev/null || { echo "dns-up: needs knotd" >&2; exit 3; }
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
mkdir -p "$dir/zones" "$dir/db"
keys=
for name in update transfer; do
    secret=$(head -c 32 /dev/urandom | base64)
    printf 'key "%s" {\n algorithm hmac-sha256;\n secret "%s";\n};\n' "$name" "$secret" >"$dir/$name.key"
    keys+="  - id: $name"$'\n'"    algorithm: hmac-sha256"$'\n'"    secret: $secret"$'\n'
done
{
    echo 'gpus.example. 3600 SOA ns.gpus.example. admin.gpus.example. 1 3600 600 86400 300'
    echo 'gpus.example. 3600 NS ns.gpus.example.'
    echo 'ns.gpus.example. 3600 A 127.0.0.1'
    printf '%s\n' "$@"
} >"$dir/zones/gpus.example.zone"
cat >"$dir/knot.conf" <<END
server:
    listen: 127.0.0.1@$port
    rundir: $dir
key:
${keys}acl:
  - id: updates
    key: update
    action: [update, transfer]
  - id: transfers
    key: transfer
    action: transfer
database:
    storage: $dir/db
zone:
  - domain: gpus.example
    storage: $dir/zones
    file: gpus.example.zone
    acl: [updates, transfers]
END
(
    for _ in $(seq 100); do
        if dig +short +time=1 +tries=1 @127.0.0.1 -p "$port" SOA gpus.example 2>/dev/null | grep -q admin; then echo "port $port"; exit 0; fi
        sleep 0.1
    done
) &
exec knotd -c "$dir/knot.conf" >"$dir/log" 2>&1
