#!/usr/bin/env bash
# A loan is called back from a process that will not go, on a GPU of this machine: the server and the agent are real, and so are the driver
# and the memory; the cluster's scheduler is simulated. Usage: gpu-walk.sh path/to/tenure, where nobody uses the first GPU.
# WALK_LIBRARY, WALK_CUDA_LIBRARY and WALK_TENANT put others in place of the driver's libraries and of the process.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tenure=$(realpath "${1:?path of the program}")
folder=$(mktemp -d)
cd "$folder"
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$folder"' EXIT
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
"$tenure" serve >serve.log 2>&1 &
until "$tenure" regions list >/dev/null 2>&1; do sleep 0.2; done
export TENURE_TOKEN=$(cat data/admin.token)
printf 'sn,cpu_milli,memory_mib,gpu,model\ngpu-0,96000,786432,1,H100\n' >nodes.csv
"$tenure" fleet import nodes.csv --cluster metal-1 --region eu
printf 'policy: platform\nversion: 3\nreclaim: {grace: 10s, guard: {share: 1}}\n' >policy.yaml
"$tenure" policy publish policy.yaml

say "the agent"
"$tenure" agent --server "$TENURE_SERVER" --cluster metal-1 --node gpu-0 --key-file agent.key --ledger ledger --gpus 1 \
    ${WALK_LIBRARY:+--library "$WALK_LIBRARY"} ${WALK_CUDA_LIBRARY:+--cuda-library "$WALK_CUDA_LIBRARY"} >agent.log 2>&1 &
until_seen gpu-0 60 "$tenure" agents
sleep 2
"$tenure" agents

say "a tenant with one GPU, which it lends"
cat >tenant.yaml <<'Y'
name: globex
tenant: {tier: enterprise, isolation: dedicated, data_residency: eu-only, allow_preemption: true, allow_gpu_sharing: false}
workspaces:
  - {name: serving, class: production, quotas: {gpus: 1}}
  - {name: research, class: research, quotas: {gpus: 0}}
entitlement: {gpu_model: H100, gpus: 1}
Y
"$tenure" tenant onboard -f tenant.yaml --wait
printf 'tenant: globex\nworkspace: research\nname: sweep\nrequests: {gpu/H100: 1}\n' | "$tenure" workload submit -f - || test $? = 10
until_seen active 60 "$tenure" loans list
${WALK_TENANT:-python3 "$here/gpu-tenant.py" leave} >tenant.out &
tenant=$!
until_seen there 60 cat tenant.out
cat tenant.out

say "its owner wants it, and the process stays"
printf 'tenant: globex\nworkspace: serving\nname: chat\nclass: service\nrequests: {gpu/H100: 1}\n' | "$tenure" workload submit -f - || test $? = 10
until_seen "has GPU-" 120 "$tenure" executions list --kind eviction -o yaml
"$tenure" executions list
"$tenure" workloads list | grep chat | grep waiting

say "the process is killed"
kill -9 "$tenant"
until_seen "chat.*admitted" 300 "$tenure" workloads list
"$tenure" workloads list
"$tenure" executions list

say "what was cleared"
cat ledger/*.json
[ -n "${WALK_TENANT:-}" ] || python3 "$here/gpu-tenant.py" look
