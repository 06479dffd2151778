#!/usr/bin/env bash
# Starts Ceph's object gateway on loopback: one monitor, one store in memory, one gateway. Usage: radosgw-up.sh DIR
#
# The first start makes a cluster under DIR with two accounts, and writes DIR/env with its address and keys: the platform's, and
# the verifier's, which is a read-only subuser of the same account. A later start, after radosgw-down.sh DIR or a kill of the
# gateway, starts only what is not running. Data is lost when the store stops, as it is in memory; the gateway can be
# restarted.
set -euo pipefail

DIR=${1:?usage: radosgw-up.sh DIR}
mkdir -p "$DIR"/{mon,osd,run,gateway,log}
DIR=$(cd "$DIR" && pwd)

missing=()
for program in ceph-mon ceph-osd radosgw radosgw-admin ceph; do
    command -v "$program" >/dev/null 2>&1 || missing+=("$program")
done
if [ ${#missing[@]} -gt 0 ]; then
    if [ "$(id -u)" != 0 ]; then
        echo "radosgw-up: ${missing[*]} not found: apt-get install ceph-mon ceph-osd radosgw ceph-common, which needs root" >&2
        exit 3
    fi
    { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends \
        ceph-mon ceph-osd radosgw ceph-common; } >"$DIR/log/install.log" 2>&1 || {
        echo "radosgw-up: ceph-mon ceph-osd radosgw ceph-common could not be installed, see $DIR/log/install.log" >&2
        exit 3
    }
fi

# Ports below 32768: the kernel uses higher ones for clients.
taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
block() {
    local base
    for _ in $(seq 200); do
        base=$((20000 + (RANDOM % 200) * 50))
        local free=1
        for offset in 0 1 2 10 11 12 13 14 15 16; do
            if taken $((base + offset)); then free=0; fi
        done
        if [ $free = 1 ]; then
            echo "$base"
            return
        fi
    done
    echo "radosgw-up: no free ports between 20000 and 30000" >&2
    exit 3
}

conf=$DIR/ceph.conf
export CEPH_CONF=$conf
alive() { [ -s "$DIR/run/$1.pid" ] && kill -0 "$(cat "$DIR/run/$1.pid")" 2>/dev/null; }
wait_for() { # seconds, what, command
    local until=$(($(date +%s) + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        if [ "$(date +%s)" -ge "$until" ]; then
            echo "radosgw-up: $what does not come up, see $DIR/log" >&2
            exit 1
        fi
        sleep 0.2
    done
}

write_conf() { # first port
    cat >"$conf" <<CONF
[global]
fsid = $(cat /proc/sys/kernel/random/uuid)
mon_host = [v2:127.0.0.1:$(($1 + 1))/0,v1:127.0.0.1:$(($1 + 2))/0]
public_addr = 127.0.0.1
ms_bind_port_min = $(($1 + 10))
ms_bind_port_max = $(($1 + 49))
keyring = $DIR/keyring
run_dir = $DIR/run
admin_socket = $DIR/run/\$name.asok
log_file = $DIR/log/\$name.log
crash_dir = $DIR/log
# One copy on one store, and no manager to tune it.
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 1
osd_pool_default_pgp_num = 1
osd_pool_default_pg_autoscale_mode = off
mon_allow_pool_size_one = true
# Its data is temporary: a nearly full disk must not prevent the start.
mon_data_avail_warn = 2
mon_data_avail_crit = 1
osd_crush_chooseleaf_type = 0
[mon.a]
mon_data = $DIR/mon
[osd.0]
osd_data = $DIR/osd
osd_objectstore = memstore
memstore_device_bytes = 1073741824
osd_class_load_list = *
osd_class_default_list = *
[client.gateway]
rgw_data = $DIR/gateway
rgw_frontends = beast endpoint=127.0.0.1:$1
rgw_thread_pool_size = 32
# Deleted data is removed from the disk at once, not hours later.
rgw_gc_obj_min_wait = 0
rgw_gc_processor_period = 1
CONF
}

make_cluster() {
    write_conf "$(block)"
    # Its own authentication stays on: without it the gateway gets no ticket and does not start.
    ceph-authtool --create-keyring "$DIR/keyring" --gen-key -n mon. --cap mon 'allow *' >/dev/null
    for name in client.admin client.gateway osd.0; do
        ceph-authtool "$DIR/keyring" --gen-key -n "$name" \
            --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *' >/dev/null
    done
    local addresses fsid
    addresses=$(sed -n 's/^mon_host = //p' "$conf")
    fsid=$(sed -n 's/^fsid = //p' "$conf")
    monmaptool --create --clobber --fsid "$fsid" --addv a "$addresses" "$DIR/monmap" >/dev/null
    ceph-mon --mkfs -i a --monmap "$DIR/monmap" --keyring "$DIR/keyring" >/dev/null
}

start_store() {
    local fresh=$1
    alive mon || ceph-mon -i a --pid-file "$DIR/run/mon.pid"
    wait_for 60 "the monitor" ceph --connect-timeout 5 quorum_status
    if [ "$fresh" = 1 ]; then
        local uuid
        uuid=$(cat /proc/sys/kernel/random/uuid)
        ceph osd new "$uuid" >/dev/null
        ceph-osd -i 0 --mkfs --osd-uuid "$uuid" >/dev/null 2>&1
    fi
    alive osd || ceph-osd -i 0 --pid-file "$DIR/run/osd.pid" >/dev/null 2>&1
    ceph osd crush add osd.0 1.0 root=default >/dev/null 2>&1 || true
    # shellcheck disable=SC2016
    wait_for 60 "the store" bash -c 'ceph osd stat | grep -q "1 up"'
}

add_accounts() {
    local port
    port=$(sed -n 's/^rgw_frontends = .*:\([0-9]*\)$/\1/p' "$conf")
    local admin=(radosgw-admin -n client.admin)
    "${admin[@]}" user create --uid=platform --display-name=platform \
        --access-key=PLATFORMKEY --secret-key=platform-secret >/dev/null
    # A subuser belongs to the same account: it lists the same buckets, and this one is read-only.
    "${admin[@]}" subuser create --uid=platform --subuser=platform:verifier --access=read >/dev/null
    "${admin[@]}" key create --uid=platform --subuser=platform:verifier --key-type=s3 \
        --access-key=VERIFIERKEY --secret-key=verifier-secret >/dev/null
    "${admin[@]}" user create --uid=stranger --display-name=stranger \
        --access-key=STRANGERKEY --secret-key=stranger-secret >/dev/null
    cat >"$DIR/env" <<ENV
RADOSGW_URL=http://127.0.0.1:$port
PLATFORM_KEY=PLATFORMKEY
PLATFORM_SECRET=platform-secret
VERIFIER_KEY=VERIFIERKEY
VERIFIER_SECRET=verifier-secret
STRANGER_KEY=STRANGERKEY
STRANGER_SECRET=stranger-secret
ENV
}

start_gateway() {
    local port
    port=$(sed -n 's/^rgw_frontends = .*:\([0-9]*\)$/\1/p' "$conf")
    alive gateway || radosgw -n client.gateway --pid-file "$DIR/run/gateway.pid"
    wait_for 90 "the gateway" curl -s -o /dev/null "http://127.0.0.1:$port/"
}

if [ -s "$DIR/env" ]; then
    start_store 0
    start_gateway
else
    make_cluster
    start_store 1
    start_gateway
    add_accounts
fi
cat "$DIR/env"
