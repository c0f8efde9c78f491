#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/try_packages.sh: the Debian packages (tools/package.sh) in a fresh Debian 12: they install, work with
# either MPI, build a program, and are removed without a trace. By root; takes some minutes and a gigabyte of disk.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/debian_root.sh

work=$(mktemp -d)
root=$work/root
trap 'remove_root "$root"; rm -rf "$work"' EXIT

say() {
    printf '%5d s  %s\n' $SECONDS "$*"
}

# quietly COMMAND...: inside, and what it printed only when it fails.
quietly() {
    inside "$root" "$@" >"$work/log" 2>&1 || {
        cat "$work/log"
        exit 1
    }
}

# everything: each file of the root that a package may have brought.
everything() {
    (cd "$root" && find etc opt usr var/lib/dpkg/info | sort)
}

compgen -G 'build/package/*.deb' >/dev/null || tools/package.sh deb
say "debootstrap"
make_root "$root"
inside "$root" apt-get -qq update
mkdir "$root/packages"
cp build/package/*.deb examples/causal.c examples/ring_mpi.c "$root/packages"

# What the packages need stays, so that what is left behind can be told apart.
say "what they depend on"
mapfile -t names < <(for file in build/package/*.deb; do dpkg-deb -f "$file" Package; done)
mapfile -t needed < <(inside "$root" bash -c 'apt-get -s --no-install-recommends install /packages/*.deb' |
    sed -n 's/^Inst \([^ ]*\).*/\1/p' | grep -v ringattn)
quietly apt-get -qq -y --no-install-recommends install gcc libc6-dev pkg-config "${needed[@]}"
everything >"$work/before"

say "install: ${names[*]}"
quietly bash -c 'apt-get -qq -y --no-install-recommends install /packages/*.deb'
for name in "${names[@]}"; do
    grep -q 'TERMS AND CONDITIONS' "$root/usr/share/doc/$name/copyright"
done

say "ringattn verify --quick"
inside "$root" ringattn verify --quick | tail -n 1
for mpi in openmpi mpich; do
    say "two ranks of $mpi"
    options=()
    if [[ $mpi == openmpi ]]; then options=(--allow-run-as-root --oversubscribe); fi
    inside "$root" "mpirun.$mpi" "${options[@]}" -n 2 "ringattn.$mpi" attend --query gen:1 --key gen:2 --value gen:3 \
        --shape 1,1000,4,32 --transport mpi --output null | tail -n 1
    inside "$root" bash -c "mpicc.$mpi /packages/ring_mpi.c -o /packages/ring_mpi \
        \$(pkg-config --cflags --libs ringattn_$mpi)"
    inside "$root" "mpirun.$mpi" "${options[@]}" -n 2 /packages/ring_mpi | tail -n 1
done
say "a program"
# shellcheck disable=SC2016 # the inner shell expands it
inside "$root" bash -c 'gcc /packages/causal.c -o /packages/causal $(pkg-config --cflags --libs ringattn) -lm'
inside "$root" /packages/causal | tail -n 1

say "remove"
quietly apt-get -qq -y purge "${names[@]}"
everything >"$work/after"
diff "$work/before" "$work/after" || {
    echo "these files differ after the packages were removed" >&2
    exit 1
}
say "removed without a trace"
