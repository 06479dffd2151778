#!/bin/bash
# Starts a whole Slurm cluster on loopback for tests: munged, MariaDB, slurmdbd, slurmctld, some slurmd with fake GPU device
# files, and slurmrestd with JSON web tokens.
#
# Usage, as root: slurm-up.sh DIR [NODES]       (default 4 nodes of 8 GPUs each)
#
# All files are in DIR, which slurm-down.sh DIR ends. The last line on stdout is JSON: the paths, and the scripts that
# restart each daemon. Ports are free ones below 32768. The machine's own munge, MariaDB and Slurm are not changed.
set -euo pipefail

dir=${1:?usage: slurm-up.sh DIR [NODES]}
nodes=${2:-4}
last=$((nodes - 1))

fail() { echo "slurm-up: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || fail "needs root: munged, MariaDB and slurmd change users; run the tests as root or in a container"

# Missing packages are installed, one process at a time; policy-rc.d keeps them from starting services.
install_missing() {
    local wanted=(slurmctld slurmd slurm-client slurmrestd slurmdbd slurm-wlm-mysql-plugin slurm-wlm-jwt-plugin mariadb-server munge)
    local missing=()
    for package in "${wanted[@]}"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} = 0 ] && return
    command -v apt-get >/dev/null || fail "${missing[*]} not installed, and there is no apt-get: install Slurm with slurmdbd, slurmrestd and auth/jwt"
    exec 9>"${TMPDIR:-/tmp}/tenure-slurm-install.lock"
    flock 9
    export DEBIAN_FRONTEND=noninteractive
    apt-get install -y --no-install-recommends "${missing[@]}" >"$dir/install.log" 2>&1 ||
        { apt-get update -qq >>"$dir/install.log" 2>&1 && apt-get install -y --no-install-recommends "${missing[@]}" >>"$dir/install.log" 2>&1; } ||
        fail "cannot install ${missing[*]}: read $dir/install.log"
    exec 9>&-
}

# `free_ports FIRST COUNT`: the first of COUNT consecutive free ports, below the kernel's ephemeral range.
free_ports() {
    local first=$1 count=$2 taken
    taken=$(ss -Htln | awk '{sub(/.*:/, "", $4); print $4}')
    while [ $((first + count)) -lt 32768 ]; do
        local port clash=
        for ((port = first; port < first + count; port++)); do
            if grep -qx "$port" <<<"$taken"; then clash=1; break; fi
        done
        [ -z "$clash" ] && { echo "$first"; return; }
        first=$((port + 1))
    done
    fail "no $count free ports below 32768"
}

# `until_true SECONDS COMMAND...`
until_true() {
    local end=$((SECONDS + $1)); shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || fail "gave up waiting for: $* (logs are in $dir/log)"
        sleep 0.05
    done
}

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
install_missing
# 22.05 requires plugins to be named that later versions lack, and the data parsers one by one.
version=$(slurmctld -V | awk '{print $2}')
if [ "${version%%.*}" -lt 23 ]; then
    plugins=$'JobAcctGatherType=jobacct_gather/none\nSwitchType=switch/none'
    languages=openapi/v0.0.38,openapi/dbv0.0.38,openapi/v0.0.37,openapi/dbv0.0.37
else
    plugins='# no plugins of earlier versions'
    languages=openapi/slurmctld,openapi/slurmdbd
    # By default, slurmd does not start without control groups.
    echo CgroupPlugin=disabled >"$dir/cgroup.conf"
fi
chmod 755 "$dir"
mkdir -p "$dir"/{munge,spool,state,log,run,mysql,dev,bin}
chmod 711 "$dir/munge"

# One cluster at a time chooses ports, until its daemons listen.
exec 8>"${TMPDIR:-/tmp}/tenure-slurm-ports.lock"
flock 8
base=$(free_ports $((20000 + RANDOM % 8000)) $((4 + nodes)))
mysql_port=$base dbd_port=$((base + 1)) ctld_port=$((base + 2)) rest_port=$((base + 3)) node_port=$((base + 4))

head -c 1024 /dev/urandom >"$dir/munge/munge.key"
head -c 32 /dev/urandom >"$dir/jwt.key"
chmod 600 "$dir/munge/munge.key" "$dir/jwt.key"
for gpu in 0 1 2 3 4 5 6 7; do : >"$dir/dev/nvidia$gpu"; done

cat >"$dir/slurmdbd.conf" <<CONF
AuthType=auth/munge
AuthInfo=socket=$dir/munge/munge.sock
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=$dir/jwt.key
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=$dbd_port
SlurmUser=root
LogFile=$dir/log/slurmdbd.log
PidFile=$dir/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$mysql_port
StorageUser=slurm
StoragePass=slurm
StorageLoc=accounting
CONF
# slurmdbd does not start if other users may read its settings.
chmod 600 "$dir/slurmdbd.conf"

cat >"$dir/slurm.conf" <<CONF
ClusterName=gpu
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$ctld_port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/munge.sock
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=$dir/jwt.key
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/slurmd.%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
$plugins
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,sched_min_interval=0,batch_sched_delay=0
GresTypes=gpu
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$dbd_port
AccountingStoragePass=$dir/munge/munge.sock
AccountingStorageEnforce=associations,limits,qos
AccountingStorageTRES=gres/gpu,gres/gpu:h200
PriorityType=priority/multifactor
PreemptType=preempt/qos
PreemptMode=REQUEUE
SlurmctldTimeout=30
SlurmdTimeout=30
KillWait=2
MinJobAge=300
NodeName=gpu[0-$last] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[$node_port-$((node_port + last))] CPUs=16 RealMemory=64000 Gres=gpu:h200:8 State=UNKNOWN
PartitionName=main Nodes=gpu[0-$last] Default=YES MaxTime=INFINITE State=UP
CONF
echo "NodeName=gpu[0-$last] Name=gpu Type=h200 File=$dir/dev/nvidia[0-7]" >"$dir/gres.conf"
chmod 644 "$dir/slurm.conf" "$dir/gres.conf"
export SLURM_CONF=$dir/slurm.conf

# One script for each daemon, so that a test can restart a killed one. Each writes its process id to run/NAME.
daemon() {
    local name=$1; shift
    {
        echo '#!/bin/bash'
        printf 'export SLURM_CONF=%q\n' "$SLURM_CONF"
        printf '%s >>%q 2>&1 </dev/null 8>&- 9>&- &\n' "$*" "$dir/log/$name.out"
        printf 'echo $! >%q\n' "$dir/run/$name"
    } >"$dir/bin/$name"
    chmod 755 "$dir/bin/$name"
    "$dir/bin/$name"
}

daemon munged setsid munged --foreground --force --key-file="$dir/munge/munge.key" --socket="$dir/munge/munge.sock" \
    --pid-file="$dir/munge/munged.pid" --log-file="$dir/munge/munged.log" --seed-file="$dir/munge/munged.seed" --num-threads=4

chown mysql "$dir/mysql"
"$(command -v mariadb-install-db || command -v mysql_install_db)" --no-defaults --user=mysql --datadir="$dir/mysql" --auth-root-authentication-method=normal --skip-test-db \
    >"$dir/log/mysql_install.log" 2>&1
daemon mariadbd setsid mariadbd --no-defaults --user=mysql --datadir="$dir/mysql" --socket="$dir/mysql/m.sock" \
    --pid-file="$dir/mysql/m.pid" --bind-address=127.0.0.1 --port="$mysql_port" --innodb-buffer-pool-size=64M \
    --innodb-log-file-size=16M --innodb-lock-wait-timeout=900 --innodb-flush-log-at-trx-commit=0 --performance-schema=0 \
    --skip-log-bin --skip-name-resolve
sql() { mariadb --no-defaults -uroot -S "$dir/mysql/m.sock" -e "$1"; }
until_true 30 sql 'select 1'
sql "create database accounting; create user slurm@'127.0.0.1' identified by 'slurm'; grant all on accounting.* to slurm@'127.0.0.1'"

until_true 10 test -S "$dir/munge/munge.sock"
# Restarts as a service manager does: slurmdbd and slurmrestd 22.05 sometimes end with a segmentation fault.
cat >"$dir/bin/watched" <<'SH'
#!/bin/bash
while :; do "$@"; [ $? -gt 128 ] || exit; sleep 0.2; done
SH
chmod 755 "$dir/bin/watched"
daemon slurmdbd setsid "$dir/bin/watched" slurmdbd -D
until_true 40 timeout 2 sacctmgr -n -i show cluster
known() { timeout 5 sacctmgr -nP show cluster format=cluster | grep -qx gpu || { timeout 10 sacctmgr -i add cluster gpu; false; }; }
until_true 60 known
daemon slurmctld setsid slurmctld -D
up() { timeout 2 scontrol ping 2>/dev/null | grep -q 'is UP'; }
until_true 30 up
for ((i = 0; i < nodes; i++)); do daemon "slurmd.gpu$i" setsid slurmd -D -N "gpu$i"; done
idle() { [ "$(timeout 2 sinfo -h -N -t idle -o %N 2>/dev/null | sort -u | wc -l)" = "$nodes" ]; }
until_true 30 idle

# Its documentation forbids root and SlurmUser.
daemon slurmrestd env SLURM_JWT=daemon SLURMRESTD_SECURITY=disable_user_check setsid setpriv --reuid=nobody --regid=nogroup \
    --clear-groups "$dir/bin/watched" slurmrestd -a rest_auth/jwt -s "$languages" "127.0.0.1:$rest_port"
token() { timeout 5 scontrol token username=root lifespan=86400 | sed 's/SLURM_JWT=//' >"$dir/root.token" && [ -s "$dir/root.token" ]; }
until_true 20 token
chmod 600 "$dir/root.token"
rest() { curl -sf -m 5 -H 'X-SLURM-USER-NAME: root' -H "X-SLURM-USER-TOKEN: $(cat "$dir/root.token")" "http://127.0.0.1:$rest_port/openapi/v3"; }
until_true 20 rest
flock -u 8

printf '{"version":"%s","url":"http://127.0.0.1:%s","cluster":"gpu","user":"root","token_file":"%s","conf":"%s","nodes":%s,"gpus_per_node":8,"bin":"%s","run":"%s","log":"%s","munge":"%s"}\n' \
    "$version" "$rest_port" "$dir/root.token" "$SLURM_CONF" "$nodes" "$dir/bin" "$dir/run" "$dir/log" "$dir/munge/munge.sock"
