#!/usr/bin/env bash
# Adds one real node, node0, to the cluster of cluster-up.sh: containerd, kubelet, and a device plugin that offers eight GPUs.
#
#   node-up.sh DIR       as root; cluster-down.sh DIR ends it with the cluster
#
# Containers run, hooks and signals are real, and pods reach each other; only the GPUs do not exist. Each line of DIR/node/devices is one of
# them, and `ID Unhealthy` makes it fail. The image localhost/busybox:1 is made of Debian's busybox: no registry is asked; DIR/node/image names
# it by its digest. A machine has room for one such node, as the kubelet's folder for device plugins is fixed. A second call starts what
# does not run.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
dir=$(cd "${1:?the folder of cluster-up.sh}" && pwd)
node=$dir/node
name=node0
subnet=${SUBNET:-10.88.0}
bridge=tenure0
programs=$(cat "$dir/programs")
first=$(cat "$dir/ports")
plugins=/var/lib/kubelet/device-plugins

if [ "$(id -u)" != 0 ]; then
    echo "node-up: a real node takes root" >&2
    exit 3
fi
needed=(containerd:containerd runc:runc containernetworking-plugins:/usr/lib/cni/bridge busybox-static:busybox iproute2:ip openssl:openssl python3:python3)
missing=()
for pair in "${needed[@]}"; do
    command -v "${pair#*:}" >/dev/null || missing+=("${pair%%:*}")
done
if [ ${#missing[@]} -gt 0 ]; then
    echo "node-up: installing ${missing[*]}" >&2
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >&2 ||
        { echo "node-up: missing packages: ${missing[*]}" >&2; exit 3; }
fi
process() { "$here/cluster-process.sh" "$dir" "$@"; }
on_node() { timeout 60 ctr --address "$node/containerd.sock" --namespace k8s.io "$@"; }
export KUBECONFIG=$dir/admin.kubeconfig
kubectl() { "$programs/kubectl" "$@"; }
if [ -S "$plugins/kubelet.sock" ] && ! kubectl get node "$name" >/dev/null 2>&1 && pgrep -f "$plugins" >/dev/null; then
    echo "node-up: another kubelet uses $plugins" >&2
    exit 1
fi

mkdir -p "$node/cni"
cd "$node"
# The node needs an address that is not loopback: the bridge of its pods has one.
ip link show "$bridge" >/dev/null 2>&1 || ip link add "$bridge" type bridge
ip addr show "$bridge" | grep -q " $subnet.1/" || ip addr add "$subnet.1/24" dev "$bridge"
ip link set "$bridge" up
cat >cni/10-bridge.conflist <<JSON
{"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "$bridge", "isGateway": true,
  "ipam": {"type": "host-local", "dataDir": "$node/addresses", "ranges": [[{"subnet": "$subnet.0/24", "rangeStart": "$subnet.10"}]]}}]}
JSON
# Without the capability SYS_RESOURCE, which containers of this kind of machine lack, no pod starts unless its score stays in bounds.
cat >containerd.toml <<TOML
version = 2
root = "$node/containerd"
state = "$node/containerd-state"
[grpc]
  address = "$node/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$node/cni"
TOML
cat >kubelet.yaml <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false # some machines still mount control groups of version 1
failSwapOn: false
cgroupDriver: cgroupfs
enforceNodeAllocatable: []
containerRuntimeEndpoint: unix://$node/containerd.sock
address: $subnet.1
port: $((first + 9))
healthzPort: $((first + 10))
readOnlyPort: 0
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}, x509: {clientCAFile: $dir/ca.crt}}
authorization: {mode: AlwaysAllow}
podLogsDir: $node/pod-logs
evictionHard: {memory.available: 1Mi, nodefs.available: 1%}
YAML
[ -s devices ] || for n in 0 1 2 3 4 5 6 7; do echo "GPU-0000000$n"; done >devices

program() { # name ready-command; its command is read from standard input
    { printf '#!/usr/bin/env bash\ncd "%s"\n' "$node"; cat; } >"$dir/run-$1"
    printf '#!/usr/bin/env bash\nset -o pipefail\nexport KUBECONFIG="%s"\n%s\n' "$KUBECONFIG" "$2" >"$dir/ready-$1"
    chmod +x "$dir/run-$1" "$dir/ready-$1"
}
program containerd "ctr --address '$node/containerd.sock' version" <<SH
exec containerd --config containerd.toml
SH
program kubelet "[ -S $plugins/kubelet.sock ] && '$programs/kubectl' get node $name | grep -q ' Ready'" <<SH
exec "$programs/kubelet" --config=kubelet.yaml --kubeconfig="$dir/$name.kubeconfig" --hostname-override=$name --root-dir="$node/kubelet" \\
    --node-ip=$subnet.1 --node-labels=nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3
SH
gpus='{.status.allocatable.nvidia\.com/gpu}'
program device-plugin "'$programs/kubectl' get node $name -o jsonpath='$gpus' | grep -qv '^0*\$'" <<SH
exec "$programs/device-plugin" $plugins devices
SH

process containerd start
python3 - "$node" <<'PY'
import hashlib, io, json, sys, tarfile

def image(path, name, config):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as layer:
        layer.add("/bin/busybox", arcname="bin/busybox")
        for applet in "sh sleep echo cat ls kill date touch wget httpd nc timeout seq mkdir".split():
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            layer.addfile(link)
    layer = made.getvalue()
    layers = {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]}
    config = {"architecture": "amd64", "os": "linux", "config": {"Env": ["PATH=/bin"], **config}, "rootfs": layers}
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(path, "w") as tar:
        files = {"config.json": json.dumps(config).encode(), "layer.tar": layer, "manifest.json": json.dumps(manifest).encode()}
        for file, data in files.items():
            info = tarfile.TarInfo(file)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))

image(f"{sys.argv[1]}/busybox.tar", "localhost/busybox:1", {"Cmd": ["/bin/sh"]})
image(f"{sys.argv[1]}/pause.tar", "localhost/pause:1", {"Entrypoint": ["/bin/sleep", "infinity"]})
PY
for image in busybox pause; do on_node images import "$image.tar" >/dev/null; done
# The same image by its digest, as a probe names it.
digest=$(on_node images list name==localhost/busybox:1 | awk 'NR == 2 {print $3}')
on_node images tag --force localhost/busybox:1 "localhost/busybox@$digest" >/dev/null
echo "localhost/busybox@$digest" >image
process kubelet start
process device-plugin start
echo "node: $name with $(kubectl get node $name -o "jsonpath=$gpus") GPUs" >&2
