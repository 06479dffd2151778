#!/usr/bin/env bash
# Five steps, each result on disk before the next: Tenure and what else is installed, in turns, so that what the machine does beside it
# strikes all alike. Ratios of these rows may be quoted; single times may not.
#
#   compare.sh [ROUNDS] [IN_FLIGHT] [SECONDS]     3 rounds, 1024 in flight, 10 s each
#   compare.sh --install                          fetches Restate and DBOS by npm, and steno and duroxide by cargo (five minutes), into
#                                                 ${TENURE_CACHE:-~/.cache/tenure}/peers
#
# Tenure is the bench `load`. DBOS runs on a PostgreSQL that is made for it, with its defaults; Restate as one server with its defaults. Both run
# their steps in Node. steno keeps its log in memory: what sagas cost that a crash ends. duroxide is on SQLite with its defaults, which sync no
# commit. Processor time is that of everything that takes part, clients included.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
peers=${TENURE_CACHE:-$HOME/.cache/tenure}/peers
if [ "${1:-}" = --install ]; then
    mkdir -p "$peers"
    cp -r "$here/peers/crates" "$peers/"
    (cd "$peers/crates" && cargo build --release --target-dir "$peers/target")
    exec npm install --prefix "$peers" --no-audit --no-fund --ignore-scripts --silent \
        @dbos-inc/dbos-sdk@5.3.0 @restatedev/restate-server@1.7.12 @restatedev/restate-sdk@1.17.2
fi
rounds=${1:-3} in_flight=${2:-1024} seconds=${3:-10}
dir=$(mktemp -d)
chmod 755 "$dir"
as_postgres() { if [ "$(id -u)" = 0 ]; then setpriv --reuid postgres --regid postgres --clear-groups "$@"; else "$@"; fi; }
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)
trap 'kill $(jobs -p) 2>/dev/null || true; [ ! -e "$dir/pg/postmaster.pid" ] || as_postgres "$bin/pg_ctl" -s -D "$dir/pg" -m immediate stop; rm -rf "$dir"' EXIT

[ -d "$peers" ] && cp "$here"/peers/*.mjs "$peers/"
has() { [ -d "$peers/node_modules/$1" ]; }

if has @dbos-inc/dbos-sdk && [ -n "$bin" ]; then
    mkdir "$dir/pg" && { [ "$(id -u)" != 0 ] || chown postgres "$dir/pg"; }
    as_postgres "$bin/initdb" -D "$dir/pg" -A trust -U postgres >/dev/null
    as_postgres "$bin/pg_ctl" -s -w -D "$dir/pg" -l "$dir/pg/log" -o "-p 55432 -k $dir/pg -c max_connections=300" start
else
    echo "DBOS is left out: run compare.sh --install, and install PostgreSQL"
fi
if has @restatedev/restate-server; then
    server=$(ls "$peers"/node_modules/@restatedev/restate-server-linux-*/bin/restate-server | head -1)
    RESTATE_BASE_DIR=$dir/restate RESTATE_BIND_IP=127.0.0.1 RUST_LOG=error DO_NOT_TRACK=1 RESTATE_DISABLE_TELEMETRY=true \
        "$server" --no-logo --listen-mode tcp >"$dir/restate.log" 2>&1 &
    (cd "$peers" && exec node restate.mjs worker 9180) >"$dir/worker.log" 2>&1 &
    for _ in $(seq 100); do
        curl -sf -o /dev/null 127.0.0.1:9070/health && break
        sleep 0.2
    done
    curl -sf -o /dev/null 127.0.0.1:9070/deployments -H 'content-type: application/json' -d '{"uri": "http://127.0.0.1:9180"}'
else
    echo "Restate is left out: run compare.sh --install"
fi

[ -x "$peers/target/release/peers" ] || echo "steno and duroxide are left out: run compare.sh --install"

load=${LOAD:-$(cargo bench -p tests --bench load --no-run 2>&1 | sed -n 's/.*Executable.*(\(.*\))/\1/p')}
echo "| | a second | p50 | p99 | CPU ms each |"
echo "|---|---|---|---|---|"
for _ in $(seq "$rounds"); do
    AT=$in_flight SECONDS=$seconds "$load" | awk -F'|' '/ in flight / { print "| Tenure," $2 "|" $3 "|" $4 "|" $5 "|" $7 "|" }'
    ! has @dbos-inc/dbos-sdk || [ -z "$bin" ] ||
        (cd "$peers" && node dbos.mjs postgresql://postgres@127.0.0.1:55432/dbos "$in_flight" "$seconds")
    ! has @restatedev/restate-server ||
        (cd "$peers" && node restate.mjs load "$in_flight" "$seconds")
    [ -x "$peers/target/release/peers" ] || continue
    "$peers/target/release/peers" steno "$in_flight" "$seconds"
    rm -f "$dir"/duroxide.db*
    # It logs to standard output.
    "$peers/target/release/peers" duroxide "$dir/duroxide.db" "$in_flight" "$seconds" | grep '^|'
done
