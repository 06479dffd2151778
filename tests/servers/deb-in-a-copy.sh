#!/usr/bin/env bash
# Installs, upgrades, removes and purges a package in a temporary copy of this machine's system: an overlay in memory over the
# root, in a separate mount namespace. Ends with 1 at the first failed check, with 3 if the copy is not possible.
#
#   deb-in-a-copy.sh PACKAGE.deb
set -euo pipefail
package=$(realpath "${1:?a package}")
if [ "$(id -u)" != 0 ] || ! unshare -m true 2>/dev/null || ! command -v dpkg >/dev/null; then
    echo "deb-in-a-copy: it takes root, mount namespaces and dpkg" >&2
    exit 3
fi
if [ -z "${IN_A_COPY:-}" ]; then IN_A_COPY=1 exec unshare -m "$0" "$package"; fi

work=$(mktemp -d)
trap 'umount -R "$work" 2>/dev/null || true; rmdir "$work" 2>/dev/null || true' EXIT
mount -t tmpfs -o mode=0755 none "$work"
mkdir "$work"/{upper,scratch,system}
mount -t overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/scratch" overlay "$work/system" ||
    { echo "deb-in-a-copy: there is no overlay here" >&2; exit 3; }
system=$work/system
mount --bind /dev "$system/dev"
mount -t proc none "$system/proc"
cp "$package" "$system/root/tenure.deb"
inside() { chroot "$system" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive "$@"; }
holds() { # what  command…
    local what=$1
    shift
    if ! "$@"; then echo "FAILS: $what"; exit 1; fi
    echo "holds: $what"
}
mode() { [ "$(inside stat -c '%U:%G %a' "$1")" = "$2" ]; }

holds "it installs" inside dpkg -i /root/tenure.deb
holds "nothing is left out" inside sh -c '! dpkg --verify tenure | grep .'
holds "the user is there, and cannot log in" inside sh -c 'getent passwd tenure | grep -q "/usr/sbin/nologin\|/bin/false"'
holds "its data is its own" mode /var/lib/tenure "tenure:tenure 700"
holds "the settings are root's, and the server may read them" mode /etc/tenure "root:tenure 750"
holds "the program runs" inside /usr/bin/tenure --version
holds "the settings are understood" inside setpriv --reuid=tenure --regid=tenure --clear-groups \
    env TENURE_CONFIG=/etc/tenure/tenure.toml TENURE_DATA=/var/lib/tenure /usr/bin/tenure config check
holds "both units are sound" inside systemd-analyze verify /lib/systemd/system/tenure.service /lib/systemd/system/tenure-agent.service

inside sh -c 'echo "# mine" >> /etc/tenure/tenure.toml; touch /var/lib/tenure/kept'
holds "it installs over itself" inside dpkg -i --force-confold /root/tenure.deb
holds "what was changed in the settings stays" inside grep -q '^# mine' /etc/tenure/tenure.toml
holds "it is removed" inside dpkg -r tenure
holds "data and settings outlive that" inside sh -c 'test -e /var/lib/tenure/kept && test -e /etc/tenure/tenure.toml && ! test -e /usr/bin/tenure'
holds "it is removed twice" inside dpkg -r tenure
holds "it is purged" inside dpkg -P tenure
holds "nothing of it is left" inside sh -c '! test -e /var/lib/tenure && ! test -e /etc/tenure && ! getent passwd tenure && ! test -e /etc/default/tenure'
holds "it comes back" inside dpkg -i /root/tenure.deb
