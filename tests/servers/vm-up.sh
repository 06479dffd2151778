#!/bin/bash
# Boots a qemu machine for tests of drives: Debian's kernel, this machine's own programs for drives, emulated NVMe drives, and
# an agent that runs one program for each connection.
#
# Usage: vm-up.sh DIR memory|drive SERIAL[=MIB]...   (one argument for each drive, 64 MiB by default; its content is DIR/SERIAL.img)
#
# With `memory` its system is in memory, like a scrub environment. With `drive` it runs from an NVMe drive with serial number
# SYS0001; changes of that drive are lost at the end. The last lines on stdout are VM_PORT=, the agent's port on loopback for
# vm-exec.sh, and VM_PID=. vm-down.sh DIR ends it. It is fully emulated, and starts in 10 to 20 seconds. Kernel and system are
# made once, in ${TENURE_CACHE:-~/.cache/tenure}/vm. VM_PREFIX is put before qemu, such as `chrt -i 0`.
set -euo pipefail

dir=${1:?usage: vm-up.sh DIR memory|drive SERIAL[=MIB]...}
from=${2:?memory, or drive}
shift 2
here=$(cd "$(dirname "$0")" && pwd)
cache=${TENURE_CACHE:-$HOME/.cache/tenure}/vm

fail() { echo "vm-up: $*" >&2; exit 3; }
PATH=$PATH:/usr/sbin:/sbin
for tool in qemu-system-x86_64 busybox cpio mke2fs nvme cryptsetup lsblk xargs dd ldd; do
    command -v "$tool" >/dev/null || fail "$tool not found: tests/servers/prepare.sh installs what is needed"
done
[ "$(uname -m)" = x86_64 ] || fail "the machine is built of this one's programs, and needs x86_64"

mkdir -p "$dir" "$cache"
dir=$(cd "$dir" && pwd)

fetch_kernel() {
    local package
    package=$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -1)
    [ -n "$package" ] || fail "no package linux-image-amd64: run apt-get update on a Debian-like system"
    (cd "$cache" && rm -f linux-image-*.deb && apt-get download "$package" >"$cache/download.log" 2>&1) ||
        fail "$package could not be downloaded: read $cache/download.log"
    rm -rf "$cache/kernel"
    dpkg -x "$cache"/linux-image-*.deb "$cache/kernel.new"
    rm -f "$cache"/linux-image-*.deb
    mv "$cache/kernel.new" "$cache/kernel"
}

# `modules TREE PATH...`: copies these kernel modules, with their own index.
modules() {
    local tree=$1 version from part; shift
    version=$(ls "$cache/kernel/lib/modules")
    from=$cache/kernel/lib/modules/$version
    mkdir -p "$tree/lib/modules/$version"
    cp "$from"/modules.builtin "$from"/modules.order "$tree/lib/modules/$version/"
    for part in "$@"; do
        [ -e "$from/kernel/$part" ] || continue
        mkdir -p "$tree/lib/modules/$version/kernel/$(dirname "$part")"
        cp -r "$from/kernel/$part" "$tree/lib/modules/$version/kernel/$part"
    done
    busybox depmod -b "$tree" "$version"
}

skeleton() {
    mkdir -p "$1"/{bin,sbin,proc,sys,dev,tmp,run,etc,root}
    cp "$(command -v busybox)" "$1/bin/busybox"
    local applet
    for applet in $(busybox --list | grep -vx busybox); do ln -s busybox "$1/bin/$applet"; done
}

# The init program: finds the drive of the system and continues there.
make_initrd() {
    local tree=$cache/initrd.tree
    rm -rf "$tree"
    skeleton "$tree"
    mkdir -p "$tree/system"
    modules "$tree" drivers/nvme/common drivers/nvme/host block fs/ext4 fs/jbd2 fs/mbcache.ko lib crypto
    cat >"$tree/init" <<'INIT'
#!/bin/busybox sh
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
modprobe nvme; modprobe crc32c_generic; modprobe ext4
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    for disk in /sys/block/nvme*; do
        case $(cat "$disk/device/serial" 2>/dev/null) in SYS0001*)
            mount -t ext4 "/dev/${disk##*/}" /system && break 2 ;;
        esac
    done
    sleep 0.5
done
mount -o move /proc /system/proc; mount -o move /sys /system/sys; mount -o move /dev /system/dev
exec switch_root /system /init
INIT
    chmod +x "$tree/init"
    (cd "$tree" && find . | cpio -o -H newc --quiet) >"$cache/initrd.new"
    rm -rf "$tree"
    mv "$cache/initrd.new" "$cache/initrd"
}

# The system: this machine's programs, with their libraries.
make_system() {
    local tree=$cache/system.tree program path library
    rm -rf "$tree"
    skeleton "$tree"
    for program in nvme cryptsetup lsblk dd xargs; do
        path=$(command -v "$program")
        rm -f "$tree/bin/$program"
        cp -L "$path" "$tree/bin/$program"
        for library in $(ldd "$path" | grep -o '/[^ ]*\.so[^ ]*'); do
            mkdir -p "$tree$(dirname "$library")"
            cp -Ln "$library" "$tree$library"
        done
    done
    # Threads of cryptsetup load it only when they end.
    library=$(ldconfig -p | sed -n 's/.*libgcc_s.so.1 .*x86-64.* => //p' | head -1)
    mkdir -p "$tree$(dirname "$library")"
    cp -Ln "$library" "$tree$library"
    modules "$tree" drivers/md crypto arch/x86/crypto lib block drivers/nvme/common drivers/nvme/host \
        drivers/net/ethernet/intel/e1000
    cat >"$tree/init" <<'INIT'
#!/bin/sh
export PATH=/bin:/sbin
[ -e /proc/self ] || { mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; }
mount -t tmpfs tmp /tmp; mount -t tmpfs run /run
# The kernel requests missing modules, such as a cipher.
echo /bin/modprobe >/proc/sys/kernel/modprobe
for module in nvme e1000 dm-mod aes_generic xts sha256_generic af_alg algif_skcipher dm-crypt; do modprobe $module; done
ip link set lo up; ip addr add 10.0.2.15/24 dev eth0; ip link set eth0 up
echo "agent listens"
exec nc -ll -p 9000 -e /bin/agent
INIT
    # One request for each connection: a line with the words of a command, and a line with its input. The answer has a line each
    # with the code, the output and the error output. Words and texts are in base64.
    cat >"$tree/bin/agent" <<'AGENT'
#!/bin/sh
export PATH=/bin:/sbin
read -r words; read -r input
set --
for word in $words; do set -- "$@" "$(printf %s "${word#w}" | base64 -d)"; done
at=$(mktemp -d /tmp/call.XXXXXX)
printf %s "${input#w}" | base64 -d >"$at/in"
"$@" <"$at/in" >"$at/out" 2>"$at/err"
echo $?
base64 -w0 "$at/out"; echo
base64 -w0 "$at/err"; echo
rm -rf "$at"
AGENT
    chmod +x "$tree/init" "$tree/bin/agent"
    (cd "$tree" && find . | cpio -o -H newc --quiet) >"$cache/memory"
    rm -f "$cache/system.new"
    mke2fs -q -t ext4 -O '^has_journal' -L system -d "$tree" "$cache/system.new" 96M >/dev/null 2>&1
    rm -rf "$tree"
    mv "$cache/system.new" "$cache/system"
}

# Made again when this script has changed.
exec 9>"$cache/lock"
flock 9
stamp=$(cksum <"$0")
if [ "$(cat "$cache/stamp" 2>/dev/null)" != "$stamp" ]; then
    [ -d "$cache/kernel" ] || fetch_kernel
    make_initrd
    make_system
    echo "$stamp" >"$cache/stamp"
fi
exec 9>&-

case $from in
memory) drives=() initrd=$cache/memory ;;
drive)
    drives=(-drive "file=$cache/system,if=none,id=system,format=raw,snapshot=on" -device "nvme,serial=SYS0001,drive=system")
    initrd=$cache/initrd ;;
*) fail "$from: write memory or drive" ;;
esac
for drive in "$@"; do
    serial=${drive%%=*} size=64
    [ "$serial" = "$drive" ] || size=${drive#*=}
    [ -e "$dir/$serial.img" ] || truncate -s "${size}M" "$dir/$serial.img"
    drives+=(-drive "file=$dir/$serial.img,if=none,id=$serial,format=raw" -device "nvme,serial=$serial,drive=$serial")
done

# A measurement on the same processors has priority.
first=()
[ -n "${VM_PREFIX:-}" ] && read -ra first <<<"$VM_PREFIX"

start() {
    local port=$1
    # Emulated: /dev/kvm exists in many containers and does not work there.
    "${first[@]}" setsid qemu-system-x86_64 -accel tcg -cpu qemu64 -m 384 -smp 1 -nodefaults -no-user-config -display none \
        -no-reboot -serial "file:$dir/console" -kernel "$cache"/kernel/boot/vmlinuz-* -initrd "$initrd" \
        -append "console=ttyS0 quiet loglevel=3 panic=-1 mitigations=off" "${drives[@]}" \
        -netdev "user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:$port-:9000" -device e1000,netdev=net \
        >"$dir/qemu.log" 2>&1 </dev/null &
    echo $! >"$dir/pid"
}

# A free port below the kernel's ephemeral range; if another process takes it meanwhile, the next one is tried.
for _ in 1 2 3 4 5; do
    port=$((20000 + RANDOM % 12000))
    : >"$dir/console"
    start "$port"
    sleep 0.5
    kill -0 "$(cat "$dir/pid")" 2>/dev/null && break
done
end=$((SECONDS + ${VM_WITHIN:-180}))
until grep -q 'agent listens' "$dir/console" 2>/dev/null && "$here/vm-exec.sh" "$port" true 2>/dev/null; do
    kill -0 "$(cat "$dir/pid")" 2>/dev/null || fail "qemu has ended: $(cat "$dir/qemu.log")"
    [ $SECONDS -lt $end ] || fail "the machine did not come up in time: read $dir/console"
    sleep 0.3
done
printf 'VM_PORT=%s\nVM_PID=%s\n' "$port" "$(cat "$dir/pid")"
