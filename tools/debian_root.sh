# SPDX-License-Identifier: Apache-2.0
# Sourced by scripts that try things in a fresh Debian 12: a folder that debootstrap fills, and commands run inside it as
# root. Mounts are private to such a command and go with it.

# make_root FOLDER: Debian 12 with bash and apt, and little else.
make_root() {
    if ((EUID != 0)); then
        echo "a Debian root can be made by root only" >&2
        return 1
    fi
    if ! command -v debootstrap >/dev/null; then
        echo "debootstrap is missing: apt-get install debootstrap" >&2
        return 1
    fi
    debootstrap --variant=minbase bookworm "$1" >"$1.log" 2>&1 || {
        tail -n 20 "$1.log"
        return 1
    }
    rm "$1.log"
    chmod 755 "$1" # mktemp keeps others out, and apt reads its files as a user of its own
    cp /etc/resolv.conf "$1/etc/resolv.conf"
}

# inside ROOT COMMAND...: with nothing of this machine's environment.
inside() {
    # shellcheck disable=SC2016 # the inner shell expands them
    unshare --mount --pid --fork env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM="${TERM:-dumb}" LC_ALL=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive bash -c '
            mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys" && mount --rbind /dev "$1/dev" &&
                exec chroot "$@"' inside "$@"
}

# remove_root FOLDER: nothing is mounted there, so nothing else is removed.
remove_root() {
    if grep -qF " $1/" /proc/self/mounts; then
        echo "$1: something is mounted there: not removed" >&2
        return 1
    fi
    rm -rf --one-file-system "$1"
}
