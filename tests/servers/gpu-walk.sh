#!/usr/bin/env bash
# A server and the agent of this machine, as users start them, on a real driver. A process on the first GPU is observed and then gone,
# and a tenant gets the machine once a diagnosis program has passed it. Usage: gpu-walk.sh path/to/tenure, with an idle first GPU.
# WALK_LIBRARY, WALK_CUDA_LIBRARY and WALK_TENANT replace the driver's libraries and the process.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tenure=$(realpath "${1:?path of the program}")
folder=$(mktemp -d)
cd "$folder"
trap '{ kill $(jobs -p) && wait; } 2>/dev/null; rm -rf "$folder"' EXIT
export TENURE_DATA=$folder/data TENURE_LISTEN=127.0.0.1:7997 TENURE_SERVER=http://127.0.0.1:7997 TENURE_TARGETS=$folder/targets.yaml
say() { printf '\n== %s (after %d s)\n' "$*" "$SECONDS"; }
until_seen() { # what, within how many seconds, in the output of the rest
    local wanted=$1 left=$2
    shift 2
    until "$@" 2>/dev/null | grep -q "$wanted"; do
        sleep 1
        left=$((left - 1))
        [ "$left" -gt 0 ] || { echo "not seen: $wanted" && "$@" && tail -n 20 ./*.log && exit 1; }
    done
}

"$tenure" agent key -o json >drawn
sed -n 's/.*"key": *"\([^"]*\)".*/\1/p' drawn >agent.key
echo "clusters: {metal-1: {agents: {keys: [$(sed -n 's/.*"hash": *"\([^"]*\)".*/\1/p' drawn)]}}}" >targets.yaml
"$tenure" serve --trial >serve.log 2>&1 &
until "$tenure" regions list >/dev/null 2>&1; do sleep 0.2; done
export TENURE_TOKEN=$(cat data/admin.token)
printf 'regions: [{id: eu, jurisdiction: eu}]\nclusters: [{id: metal-1, region: eu, kind: bare_metal}]\n' >sites.yaml
"$tenure" fleet import sites.yaml
printf 'sn,cpu_milli,memory_mib,gpu,model\ngpu-0,96000,786432,1,H100\n' >nodes.csv
"$tenure" fleet import nodes.csv --cluster metal-1 --region eu

say "the agent"
printf '#!/bin/sh\nnvidia-smi -L || [ -n "%s" ]\n' "${WALK_LIBRARY:-}" >diagnosis
chmod +x diagnosis
"$tenure" agent --server "$TENURE_SERVER" --cluster metal-1 --node gpu-0 --key-file agent.key --ledger ledger --gpus 1 \
    --diagnosis "$folder/diagnosis" \
    ${WALK_LIBRARY:+--library "$WALK_LIBRARY"} ${WALK_CUDA_LIBRARY:+--cuda-library "$WALK_CUDA_LIBRARY"} >agent.log 2>&1 &
until_seen "gpu-0.*true *-" 60 "$tenure" agents
"$tenure" agents

say "a process on the GPU"
${WALK_TENANT:-python3 "$here/gpu-tenant.py" leave} >process.out &
process=$!
until_seen there 60 cat process.out
cat process.out
until_seen "process $process" 60 "$tenure" agents
"$tenure" agents

say "it is killed"
kill -9 "$process"
until_seen "gpu-0.*true *-" 60 "$tenure" agents
"$tenure" agents

say "a tenant"
cat >tenant.yaml <<'Y'
name: globex
tenant: {tier: enterprise, isolation: dedicated, data_residency: eu-only, allow_preemption: true, allow_gpu_sharing: false}
workspaces: [{name: serving, class: production}]
entitlement: {gpu_model: H100, gpus: 1}
Y
"$tenure" user add olga --role platform_ops >olga.token
"$tenure" tenant onboard -f tenant.yaml --wait 2>/dev/null || test $? = 10
asked=$("$tenure" approvals list | awk 'NR == 2 {print $1}')
"$tenure" --token "$(cat olga.token)" approvals approve "$asked" --reason "it is there" 2>/dev/null
"$tenure" executions wait "${asked%.*}"
"$tenure" executions journal "${asked%.*}" | grep -A 3 Qualif
"$tenure" nodes list
say "done"
