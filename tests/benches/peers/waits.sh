# shellcheck shell=bash disable=SC2154
# `compare.sh waits`, which sources this: the cost of many waiting workflows, the delay after a decision, and the state after kill -9.

# Runs it in Node and sets `said`. In the background, so that it always ends with this script.
client() {
    (cd "$peers" && exec node "$@") >"$dir/said" &
    wait "$!"
    said=$(cat "$dir/said")
}

# Waits until all running workflows hang in their third step, which the worker prints.
until_all_hang() {
    until [ "$(grep -c '^hangs' "$dir/worker.log")" -ge "$walking" ]; do
        kill -0 "$worker_pid" 2>/dev/null || { cat "$dir/worker.log" >&2 && return 1; }
        sleep 0.2
    done
}

now() { date +%s%3N; }

killed() { { kill -9 "$@" && wait "$@"; } 2>/dev/null || true; }

restate_waits() {
    local first began
    HANG=1 begin_restate
    await_restate
    client restate.mjs waits "$parked" "$walking" "$server_pid" "$worker_pid"
    first=$said
    until_all_hang
    killed "$server_pid" "$worker_pid"
    began=$(now)
    begin_restate
    client restate.mjs ended "$walking" "$began"
    echo "| Restate $first $said |"
    killed "$server_pid" "$worker_pid"
}

dbos_worker() {
    (cd "$peers" && exec node dbos.mjs "$@") >"$dir/worker.log" 2>&1 &
    worker_pid=$!
}

dbos_waits() {
    local first began
    make_postgres
    HANG=1 dbos_worker waits "$url" "$parked" "$walking" "$(head -1 "$dir/pg/postmaster.pid")"
    until_all_hang
    first=$(grep '^|' "$dir/worker.log")
    killed "$worker_pid"
    # As a power cut would.
    pg_ctl -m immediate stop
    began=$(now)
    begin_postgres
    dbos_worker worker "$url"
    client dbos.mjs ended "$url" "$walking" "$began"
    echo "| DBOS $first $said |"
    killed "$worker_pid"
    pg_ctl -m immediate stop
}

waits() {
    echo "| | memory for each that waits | p50 from a decision that is acknowledged to the end | p99 | killed with -9, until all $walking under way have ended |"
    echo "|---|---|---|---|---|"
    PARKED=$parked WALKING=$walking "$load" waits | grep '^| Tenure' || true
    if has_restate; then restate_waits; fi
    if has_dbos; then dbos_waits; fi
}
