#!/usr/bin/env bash
# Five steps, each result on disk before the next: Tenure and other installed engines, in turns, so that other work on the machine
# affects all of them equally. Ratios of these rows may be quoted; single times may not.
#
#   compare.sh [ROUNDS] [IN_FLIGHT] [SECONDS]     3 rounds, 1024 in flight, 10 s each
#   compare.sh waits [PARKED] [WALKING]           PARKED (10000) wait for approval, a thousand of them get a decision, and WALKING (1000) are in
#                                                 their third step when all is killed with -9, and PostgreSQL stopped as by a power cut. One
#                                                 row each; takes minutes, as Restate unloads waiting workflows after one
#   compare.sh --install                          downloads Restate and DBOS by npm, and steno and duroxide by cargo (five minutes), into
#                                                 ${TENURE_CACHE:-~/.cache/tenure}/peers
#
# Tenure is the bench `load`. DBOS runs on a temporary PostgreSQL with its defaults; Restate runs as one server with its defaults. Both run
# their steps in Node. steno has an in-memory log, which shows the cost of sagas without durability. duroxide runs on SQLite with its defaults,
# which sync no commit. Processor time and written bytes include all processes, also the clients. If other programs write to the same device,
# the bytes may be too many for DBOS: see load.mjs. Deferred writes do not count, such as pages of PostgreSQL's tables until its checkpoint.
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
dir=$(mktemp -d)
chmod 755 "$dir"
as_postgres() { if [ "$(id -u)" = 0 ]; then setpriv --reuid postgres --regid postgres --clear-groups "$@"; else "$@"; fi; }
bin=$(find /usr/lib/postgresql -mindepth 2 -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -1 || true)
pg_ctl() { as_postgres "$bin/pg_ctl" -s -w -D "$dir/pg" -l "$dir/pg/log" "$@"; }
leave() {
    # shellcheck disable=SC2046
    { kill -9 $(jobs -p) && wait; } 2>/dev/null || true
    [ ! -e "$dir/pg/postmaster.pid" ] || pg_ctl -m immediate stop || true
    rm -rf "$dir"
}
trap leave EXIT

[ -d "$peers" ] && cp "$here"/peers/*.mjs "$peers/"
has() { [ -d "$peers/node_modules/$1" ]; }
has_dbos() { has @dbos-inc/dbos-sdk && [ -n "$bin" ]; }
has_restate() { has @restatedev/restate-server; }
has_dbos || echo "DBOS is left out: run compare.sh --install, and install PostgreSQL"
has_restate || echo "Restate is left out: run compare.sh --install"

url=postgresql://postgres@127.0.0.1:55432/dbos
begin_postgres() { pg_ctl -o "-p 55432 -k $dir/pg -c max_connections=300" start; }
make_postgres() {
    mkdir "$dir/pg"
    [ "$(id -u)" != 0 ] || chown postgres "$dir/pg"
    as_postgres "$bin/initdb" -D "$dir/pg" -A trust -U postgres >/dev/null
    begin_postgres
}

begin_restate() {
    local server
    server=$(find "$peers/node_modules/@restatedev" -path "*restate-server-linux-*/bin/restate-server" | head -1)
    RESTATE_BASE_DIR=$dir/restate RESTATE_BIND_IP=127.0.0.1 RUST_LOG=error DO_NOT_TRACK=1 RESTATE_DISABLE_TELEMETRY=true \
        "$server" --no-logo --listen-mode tcp >"$dir/restate.log" 2>&1 &
    server_pid=$!
    (cd "$peers" && exec node restate.mjs worker 9180) >"$dir/worker.log" 2>&1 &
    worker_pid=$!
}
# It stores its registration, also across restarts.
await_restate() {
    for _ in $(seq 100); do
        curl -sf -o /dev/null 127.0.0.1:9070/health && break
        sleep 0.2
    done
    curl -sf -o /dev/null 127.0.0.1:9070/deployments -H 'content-type: application/json' -d '{"uri": "http://127.0.0.1:9180"}'
}

load=${LOAD:-$(cargo bench -p tests --bench load --no-run 2>&1 | sed -n 's/.*Executable.*(\(.*\))/\1/p')}
if [ "${1:-}" = waits ]; then
    parked=${2:-10000} walking=${3:-1000}
    # shellcheck source=peers/waits.sh
    . "$here/peers/waits.sh"
    waits
    exit
fi

rounds=${1:-3} in_flight=${2:-1024} seconds=${3:-10}
if has_dbos; then make_postgres; fi
if has_restate; then begin_restate && await_restate; fi
[ -x "$peers/target/release/peers" ] || echo "steno and duroxide are left out: run compare.sh --install"
echo "| | a second | p50 | p99 | CPU ms each | bytes written each |"
echo "|---|---|---|---|---|---|"
for _ in $(seq "$rounds"); do
    AT=$in_flight SECONDS=$seconds "$load" | awk -F'|' '/ in flight / { print "| Tenure," $2 "|" $3 "|" $4 "|" $5 "|" $7 "|" $9 "|" }'
    ! has_dbos || (cd "$peers" && node dbos.mjs load "$url" "$in_flight" "$seconds")
    ! has_restate || (cd "$peers" && node restate.mjs load "$in_flight" "$seconds")
    [ -x "$peers/target/release/peers" ] || continue
    "$peers/target/release/peers" steno "$in_flight" "$seconds" | sed 's/$/ not counted |/'
    rm -f "$dir"/duroxide.db*
    # It logs to standard output.
    "$peers/target/release/peers" duroxide "$dir/duroxide.db" "$in_flight" "$seconds" | grep '^|' | sed 's/$/ not counted |/'
done
