#!/usr/bin/env bash
# Starts a real Kubernetes control plane on this machine: etcd, API server, controller manager. No scheduler and no kubelet:
# pods and nodes are only records.
#
#   kubernetes-up.sh DIR [OWNER]     all files are in DIR, which is made; it ends with the process OWNER, if there is one
#
# Leaves in DIR: server (the address), etcd.url, ca.crt, admin.token, admin.kubeconfig, and token and kubeconfig of tenure and of verifier (the
# service accounts of api/packaging/kubernetes/rbac.yaml, with no other rights). kubernetes-apiserver.sh DIR kill|start simulates an outage,
# kubernetes-down.sh DIR ends everything.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
dir=${1:?a folder to work in}
owner=${2:-}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

needed=(etcd-server:etcd kubernetes-client:kubectl openssl:openssl curl:curl jq:jq)
missing=()
for pair in "${needed[@]}"; do
    command -v "${pair#*:}" >/dev/null || missing+=("${pair%%:*}")
done
if [ ${#missing[@]} -gt 0 ]; then
    if [ "$(id -u)" != 0 ]; then
        echo "kubernetes-up: missing packages: ${missing[*]}; install them with: sudo apt-get install ${missing[*]}" >&2
        exit 3
    fi
    echo "kubernetes-up: installing ${missing[*]}" >&2
    apt-get update -qq >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
fi
binaries=$("$here/kubernetes-build.sh" | tail -n 1)

# Ports below the kernel's ephemeral range.
free_port() {
    local port
    while :; do
        port=$((20000 + RANDOM % 12000))
        [[ " ${taken[*]-} " == *" $port "* ]] && continue
        if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
            taken+=("$port")
            found=$port
            return
        fi
    done
}
taken=()
free_port; etcd_port=$found
free_port; peer_port=$found
free_port; api_port=$found
server=https://127.0.0.1:$api_port
echo "$server" >"$dir/server"
echo "http://127.0.0.1:$etcd_port" >"$dir/etcd.url"

cd "$dir"
umask 077
# One authority and one certificate for the server; all clients use tokens.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=tenure-tests \
    -keyout ca.key -out ca.crt 2>/dev/null
openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=kube-apiserver -keyout server.key -out server.csr 2>/dev/null
printf 'subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:kubernetes.default.svc\nextendedKeyUsage=serverAuth\n' >server.ext
openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile server.ext -out server.crt 2>/dev/null
openssl genrsa -out accounts.key 2048 2>/dev/null
for who in admin manager; do openssl rand -hex 24 | tr -d '\n' >"$who.token"; done
{
    echo "$(cat admin.token),admin,admin,system:masters"
    echo "$(cat manager.token),system:kube-controller-manager,manager"
} >tokens.csv

kubeconfig() { # name token-file
    cat >"$dir/$1.kubeconfig" <<YAML
apiVersion: v1
kind: Config
clusters:
- name: tests
  cluster: {server: "$server", certificate-authority: "$dir/ca.crt"}
users:
- name: $1
  user: {tokenFile: "$dir/$2"}
contexts:
- name: tests
  context: {cluster: tests, user: $1}
current-context: tests
YAML
}
kubeconfig admin admin.token
kubeconfig manager manager.token
kubeconfig tenure tenure.token
kubeconfig verifier verifier.token

setsid etcd --data-dir "$dir/etcd" --log-level warn \
    --listen-client-urls "http://127.0.0.1:$etcd_port" --advertise-client-urls "http://127.0.0.1:$etcd_port" \
    --listen-peer-urls "http://127.0.0.1:$peer_port" --initial-advertise-peer-urls "http://127.0.0.1:$peer_port" \
    --initial-cluster "default=http://127.0.0.1:$peer_port" >etcd.log 2>&1 </dev/null &
echo $! >etcd.pid

cat >run-apiserver <<SH
#!/usr/bin/env bash
exec "$binaries/kube-apiserver" --etcd-servers=http://127.0.0.1:$etcd_port --bind-address=127.0.0.1 \\
    --advertise-address=127.0.0.1 --secure-port=$api_port --endpoint-reconciler-type=none \\
    --tls-cert-file="$dir/server.crt" --tls-private-key-file="$dir/server.key" --token-auth-file="$dir/tokens.csv" \\
    --authorization-mode=RBAC --service-account-issuer=https://kubernetes.default.svc \\
    --service-account-key-file="$dir/accounts.key" --service-account-signing-key-file="$dir/accounts.key" \\
    --service-cluster-ip-range=10.0.0.0/24 --cert-dir="$dir"
SH
cat >run-manager <<SH
#!/usr/bin/env bash
# Without the controllers for nodes, as there are no real nodes.
exec "$binaries/kube-controller-manager" --kubeconfig="$dir/manager.kubeconfig" --leader-elect=false --port=0 --secure-port=0 \\
    --use-service-account-credentials --service-account-private-key-file="$dir/accounts.key" --root-ca-file="$dir/ca.crt" \\
    --controllers=namespace,resourcequota,serviceaccount,serviceaccount-token,garbagecollector,clusterrole-aggregation,persistentvolume-binder,pvc-protection,pv-protection,disruption
SH
chmod +x run-apiserver run-manager
"$here/kubernetes-apiserver.sh" "$dir" start
setsid "$dir/run-manager" >manager.log 2>&1 </dev/null &
echo $! >manager.pid

if [ -n "$owner" ]; then
    setsid bash -c 'while kill -0 "$1" 2>/dev/null; do sleep 1; done; exec "$2" "$3"' watch "$owner" "$here/kubernetes-down.sh" "$dir" \
        >/dev/null 2>&1 </dev/null &
fi

export KUBECONFIG=$dir/admin.kubeconfig
for _ in $(seq 600); do
    kubectl -n default get serviceaccount default >/dev/null 2>&1 && break
    sleep 0.1
done
kubectl apply --validate=false -f "$here/../../api/packaging/kubernetes/rbac.yaml" >/dev/null
for _ in $(seq 600); do # the survey's rights are put together by a controller
    kubectl get clusterrole tenure-survey -o json | jq -e '.rules | length > 0' >/dev/null && break
    sleep 0.1
done
request='{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":86400}}'
for pair in tenure:tenure tenure-verifier:verifier; do
    curl -sS --fail --cacert ca.crt -H "Authorization: Bearer $(cat admin.token)" -H 'Content-Type: application/json' -d "$request" \
        "$server/api/v1/namespaces/tenure/serviceaccounts/${pair%%:*}/token" | jq -j .status.token >"${pair#*:}.token"
    [ -s "${pair#*:}.token" ]
done
echo "kubernetes: $server, export KUBECONFIG=$dir/admin.kubeconfig" >&2
