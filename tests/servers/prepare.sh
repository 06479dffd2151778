#!/usr/bin/env bash
# Installs and builds the servers of the end-to-end tests, so that none of these is skipped.
#
#   prepare.sh        as root; prints failed installations, and ends with 1 if there are any
#
# Packages come from the machine's own package lists. Both servers of Kubernetes are built once for each machine, the old one from Debian's
# source and a current one from Go modules, each in a quarter of an hour on two slow cores. They are stored in
# ${TENURE_CACHE:-~/.cache/tenure}. TENURE_KUBERNETES names another version than the newest, such as `oldest`.
set -uo pipefail
cd "$(dirname "$0")"

packages=(
    etcd-server openssl jq golang-1.19-go binutils systemd
    slurm-wlm slurmctld slurmd slurm-client slurmrestd slurmdbd slurm-wlm-mysql-plugin slurm-wlm-jwt-plugin mariadb-server munge
    ceph-mon ceph-osd radosgw ceph-common
    containerd runc containernetworking-plugins iproute2
    softhsm2 opensc valgrind
    chromium chromium-driver
    docker-registry knot bind9-dnsutils curl python3-venv
    qemu-system-x86 busybox-static cpio e2fsprogs nvme-cli cryptsetup-bin util-linux
)
missing=()
for package in "${packages[@]}"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
command -v kubectl >/dev/null || missing+=(kubernetes-client)
command -v npm >/dev/null || missing+=(nodejs npm)
failed=0
if [ ${#missing[@]} -gt 0 ]; then
    as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }
    { as_root apt-get update -qq &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null; } ||
        { echo "prepare: not to be had: ${missing[*]}"; failed=1; }
fi
./kubernetes-build.sh >/dev/null || { echo "prepare: the Kubernetes API server could not be built"; failed=1; }
./cluster-build.sh "${TENURE_KUBERNETES:-newest}" >/dev/null || { echo "prepare: a current Kubernetes could not be built"; failed=1; }
./oidc-up.sh --prepare || { echo "prepare: the OpenID provider could not be installed"; failed=1; }
./scim-up.sh --prepare || { echo "prepare: the SCIM service could not be installed"; failed=1; }
./chart.sh ../../api/packaging/helm/tenure tenure tenure >/dev/null || { echo "prepare: the renderer of charts could not be built"; failed=1; }
./prometheus.sh >/dev/null || { echo "prepare: Prometheus is not to be had"; failed=1; }
# The machine for drives is made at its first start.
vm=$(mktemp -d)
./vm-up.sh "$vm" memory >/dev/null || { echo "prepare: the machine of qemu did not start"; failed=1; }
./vm-down.sh "$vm"
rm -rf "$vm"
exit "$failed"
