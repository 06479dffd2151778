#!/usr/bin/env bash
# Starts a real Kubernetes on this machine: etcd, API server, controllers, scheduler, Kueue, and KWOK for nodes without machines (those with
# the label type=kwok). A node that runs containers is added by node-up.sh.
#
#   cluster-up.sh DIR [VERSION [OWNER]]     VERSION as for cluster-build.sh; it ends with the process OWNER, if there is one
#
# Leaves in DIR: server (the address), etcd.url, ca.crt, admin.token, admin.kubeconfig, programs (the folder of cluster-build.sh), and token
# and kubeconfig of tenure and of verifier (the service accounts of api/packaging/kubernetes/rbac.yaml, with no other rights).
# cluster-process.sh simulates failures of one program, cluster-down.sh DIR ends everything. A second call starts what does not run.
# The ports are PORTS and the eleven after it, or a free range; ephemeral ports begin at 32768, so it is below them.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
dir=${1:?a folder to work in}
version=${2:-newest}
owner=${3:-}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

needed=(openssl:openssl curl:curl jq:jq)
missing=()
for pair in "${needed[@]}"; do
    command -v "${pair#*:}" >/dev/null || missing+=("${pair%%:*}")
done
if [ ${#missing[@]} -gt 0 ]; then
    if [ "$(id -u)" != 0 ]; then
        echo "cluster-up: missing packages: ${missing[*]}; install them with: sudo apt-get install ${missing[*]}" >&2
        exit 3
    fi
    echo "cluster-up: installing ${missing[*]}" >&2
    apt-get update -qq >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
fi
programs=$("$here/cluster-build.sh" "$version" | tail -n 1)
process() { "$here/cluster-process.sh" "$dir" "$@"; }

range=12
all_free() { # first
    local port
    for ((port = $1; port < $1 + range; port++)); do
        if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then return 1; fi
    done
}
if [ ! -s "$dir/ports" ]; then
    first=${PORTS:-}
    until [ -n "$first" ]; do
        try=$((20000 + RANDOM % 1000 * range))
        if all_free $try; then first=$try; fi
    done
    echo "$first" >"$dir/ports"
fi
first=$(cat "$dir/ports")
etcd_port=$first peer_port=$((first + 1)) api_port=$((first + 2)) controllers_port=$((first + 3)) scheduler_port=$((first + 4))
kwok_port=$((first + 5)) webhook_port=$((first + 6)) kueue_port=$((first + 7)) metrics_port=$((first + 8))
server=https://127.0.0.1:$api_port
etcd_url=http://127.0.0.1:$etcd_port

cd "$dir"
umask 077
echo "$server" >server
echo "$etcd_url" >etcd.url
echo "$programs" >programs

# One authority. People and programs have tokens; certificates are for servers, and for the API server as a client of kubelets.
certificate() { # name subject extensions
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "$2" -keyout "$1.key" -out "$1.csr" 2>/dev/null
    printf '%s\n' "$3" >"$1.ext"
    openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile "$1.ext" -out "$1.crt" 2>/dev/null
}
accounts=(admin manager scheduler kwok kueue node0)
if [ ! -s tokens.csv ]; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=tenure-tests \
        -keyout ca.key -out ca.crt 2>/dev/null
    certificate server /CN=kube-apiserver $'subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:kubernetes.default.svc\nextendedKeyUsage=serverAuth'
    certificate kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client extendedKeyUsage=clientAuth
    certificate webhook /CN=kueue-webhook $'subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth'
    openssl genrsa -out accounts.key 2048 2>/dev/null
    for who in "${accounts[@]}"; do openssl rand -hex 24 | tr -d '\n' >"$who.token"; done
    {
        echo "$(cat admin.token),admin,admin,system:masters"
        echo "$(cat manager.token),system:kube-controller-manager,manager"
        echo "$(cat scheduler.token),system:kube-scheduler,scheduler"
        echo "$(cat kwok.token),kwok,kwok,system:masters"
        echo "$(cat kueue.token),system:serviceaccount:kueue-system:kueue-controller-manager,kueue"
        echo "$(cat node0.token),system:node:node0,node0,system:nodes"
    } >tokens.csv
fi
for who in "${accounts[@]}" tenure verifier; do
    cat >"$who.kubeconfig" <<YAML
apiVersion: v1
kind: Config
clusters:
- name: tests
  cluster: {server: "$server", certificate-authority: "$dir/ca.crt"}
users:
- name: $who
  user: {tokenFile: "$dir/$who.token"}
contexts:
- name: tests
  context: {cluster: tests, user: $who}
current-context: tests
YAML
done

program() { # name ready-command; its command is read from standard input
    { printf '#!/usr/bin/env bash\ncd "%s"\n' "$dir"; cat; } >"run-$1"
    printf '#!/usr/bin/env bash\ncd "%s"\n%s\n' "$dir" "$2" >"ready-$1"
    chmod +x "run-$1" "ready-$1"
}
healthy='curl -sSkf --max-time 2'
program etcd "$healthy $etcd_url/health" <<SH
exec "$programs/etcd" --data-dir=etcd --log-level=warn --unsafe-no-fsync \\
    --listen-client-urls=$etcd_url --advertise-client-urls=$etcd_url \\
    --listen-peer-urls=http://127.0.0.1:$peer_port --initial-advertise-peer-urls=http://127.0.0.1:$peer_port \\
    --initial-cluster=default=http://127.0.0.1:$peer_port
SH
program apiserver "$healthy -H \"Authorization: Bearer \$(cat admin.token)\" $server/readyz" <<SH
exec "$programs/kube-apiserver" --etcd-servers=$etcd_url --bind-address=127.0.0.1 --advertise-address=127.0.0.1 \\
    --secure-port=$api_port --endpoint-reconciler-type=none --cert-dir=certificates \\
    --tls-cert-file=server.crt --tls-private-key-file=server.key --token-auth-file=tokens.csv --client-ca-file=ca.crt \\
    --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged=true \\
    --service-account-issuer=https://kubernetes.default.svc --service-account-key-file=accounts.key \\
    --service-account-signing-key-file=accounts.key --service-cluster-ip-range=10.0.0.0/24 \\
    --kubelet-client-certificate=kubelet-client.crt --kubelet-client-key=kubelet-client.key \\
    --kubelet-preferred-address-types=InternalIP
SH
program controllers "$healthy https://127.0.0.1:$controllers_port/healthz" <<SH
exec "$programs/kube-controller-manager" --kubeconfig=manager.kubeconfig --authentication-kubeconfig=manager.kubeconfig \\
    --authorization-kubeconfig=manager.kubeconfig --leader-elect=false --bind-address=127.0.0.1 --secure-port=$controllers_port \\
    --cert-dir=certificates --use-service-account-credentials --service-account-private-key-file=accounts.key --root-ca-file=ca.crt
SH
program scheduler "$healthy https://127.0.0.1:$scheduler_port/healthz" <<SH
exec "$programs/kube-scheduler" --kubeconfig=scheduler.kubeconfig --authentication-kubeconfig=scheduler.kubeconfig \\
    --authorization-kubeconfig=scheduler.kubeconfig --leader-elect=false --bind-address=127.0.0.1 --secure-port=$scheduler_port \\
    --cert-dir=certificates
SH
# Pods start and end at once, unless their annotations say otherwise; only a job's takes some seconds to complete.
awk 'BEGIN { RS = "---\n"; ORS = RS } /name: pod-/ && !/name: pod-complete/ { gsub(/urationMilliseconds: [0-9]+/, "urationMilliseconds: 0") } 1' \
    "$programs/kwok-stages.yaml" >kwok.yaml
program kwok "$healthy http://127.0.0.1:$kwok_port/healthz" <<SH
exec "$programs/kwok" --kubeconfig=kwok.kubeconfig --config=kwok.yaml --manage-all-nodes=false \\
    --manage-nodes-with-label-selector=type=kwok --node-lease-duration-seconds=40 --server-address=127.0.0.1:$kwok_port
SH
# Kueue reads the certificate of its metrics from a fixed folder of /etc, so it gets an /etc of its own with nothing else in it.
own=$([ "$(id -u)" = 0 ] || echo --map-root-user)
program kueue "$healthy http://127.0.0.1:$kueue_port/readyz" <<SH
export KUBECONFIG="$dir/kueue.kubeconfig"
exec unshare --mount $own bash -c 'mount -t tmpfs etc /etc && mkdir -p /etc/kueue/metrics/certs && cp "$dir"/kueue/tls.* /etc/kueue/metrics/certs/ &&
    exec "$programs/kueue" --config="$dir/kueue/config.yaml" --zap-log-level=2 --feature-gates=VisibilityOnDemand=false'
SH

# A cluster that does not come up is ended.
trap 'if [ $? != 0 ]; then "$here/cluster-down.sh" "$dir"; fi' EXIT
process etcd start
process apiserver start
process controllers start
process scheduler start
process kwok start

if [ -n "$owner" ] && [ ! -s watch.pid ]; then
    setsid bash -c 'while kill -0 "$1" 2>/dev/null; do sleep 1; done; exec "$2" "$3"' watch "$owner" "$here/cluster-down.sh" "$dir" \
        >/dev/null 2>&1 </dev/null &
    echo $! >watch.pid
fi

export KUBECONFIG=$dir/admin.kubeconfig
kubectl() { "$programs/kubectl" "$@"; }
comes_true() { # what command…
    local what=$1
    shift
    for _ in $(seq 600); do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 0.1
    done
    echo "cluster-up: not within a minute: $what" >&2
    exit 1
}
comes_true "the account of the namespace default" kubectl -n default get serviceaccount default

# Kueue runs beside the cluster and not in it: the API server reaches its webhooks and conversions by address, with our authority.
mkdir -p kueue
cp webhook.crt kueue/tls.crt
cp webhook.key kueue/tls.key
cat >kueue/config.yaml <<YAML
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health: {healthProbeBindAddress: "127.0.0.1:$kueue_port"}
metrics: {bindAddress: "127.0.0.1:$metrics_port", enableClusterQueueResources: true}
webhook: {host: 127.0.0.1, port: $webhook_port, certDir: $dir/kueue}
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
clientConnection: {qps: 200, burst: 400}
manageJobsWithoutQueueName: false
managedJobsNamespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, kueue-system]}]}
integrations: {frameworks: [batch/job, pod, deployment, statefulset]}
# As docs/backends/kubernetes.md asks: queues count GPUs only.
resources: {excludeResourcePrefixes: [cpu, memory, ephemeral-storage]}
YAML
if [ ! -s kueue/objects.json ]; then
    kubectl create --dry-run=client --validate=false -o json -f "$programs/kueue.yaml" | jq --arg ca "$(base64 -w 0 ca.crt)" \
        --arg url "https://127.0.0.1:$webhook_port" '
        select(.kind as $kind | ["Deployment", "Service", "Secret", "APIService"] | index($kind) | not)
        | walk(if type == "object" and (.service | type) == "object" and (.service | has("name") and has("namespace"))
            then .url = $url + (.service.path // "/convert") | .caBundle = $ca | del(.service) else . end)' >kueue/objects.new
    mv kueue/objects.new kueue/objects.json
fi
kubectl apply --server-side --force-conflicts -f kueue/objects.json >/dev/null
kubectl wait --for=condition=Established crd --all --timeout=60s >/dev/null
process kueue start

kubectl apply --server-side --force-conflicts -f "$programs/httproutes.yaml" >/dev/null
kubectl apply -f "$here/../../api/packaging/kubernetes/rbac.yaml" >/dev/null
has_rules() { kubectl get clusterrole tenure-survey -o json | jq -e '.rules | length > 0'; } # a controller puts them together
comes_true "the rights of the survey" has_rules
for pair in tenure:tenure tenure-verifier:verifier; do
    kubectl -n tenure create token "${pair%%:*}" --duration=24h | tr -d '\n' >"${pair#*:}.token"
    [ -s "${pair#*:}.token" ]
done
echo "kubernetes: $server, export KUBECONFIG=$dir/admin.kubeconfig" >&2
