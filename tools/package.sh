#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/package.sh [deb | source]: build/package/*.deb, packages of the library, the command, the multi-head layer and of
# both for each MPI; build/package/ringattn-VERSION.tar.gz, the sources of the last commit. Default: all of them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=build/package

version() {
    sed -nE 's/^#define RA_VERSION_(MAJOR|MINOR|PATCH) ([0-9]+)$/\2/p' include/ringattn/ringattn.h | paste -sd.
}

# builds: one folder for each of the MPIs and one without, all for /usr.
builds() {
    local name mpi options
    for name in openmpi mpich alone; do
        mpi=$name options=()
        if [[ $name == alone ]]; then
            mpi=OFF options=(-DRINGATTN_PACKAGES=ON)
        fi
        cmake -S . -B "$packages/$name" -G Ninja --log-level=WARNING -DCMAKE_BUILD_TYPE=Release \
            -DCMAKE_INSTALL_PREFIX=/usr -DRINGATTN_ZSH_FOLDER=share/zsh/vendor-completions -DRINGATTN_TESTS=OFF \
            -DRINGATTN_MPI="$mpi" "${options[@]}" >"$packages/log" 2>&1 || {
            cat "$packages/log"
            return 1
        }
        cmake --build "$packages/$name" --parallel "$(nproc)" >"$packages/log" 2>&1 || {
            cat "$packages/log"
            return 1
        }
    done
}

deb() {
    builds
    rm -f "$packages"/*.deb
    # What it packs is installed into a folder first; its files belong to root in the packages.
    (cd "$packages" && cpack --config alone/CPackConfig.cmake >log 2>&1) || {
        cat "$packages/log"
        return 1
    }
    ls "$packages"/*.deb
}

source_tarball() {
    local name
    if ! git rev-parse --git-dir >/dev/null 2>&1; then
        echo "package: no git repository here: these sources come from a tarball already" >&2
        return 1
    fi
    name=ringattn-$(version)
    git archive --format=tar.gz --prefix="$name/" -o "$packages/$name.tar.gz" HEAD
    ls "$packages/$name.tar.gz"
}

mkdir -p "$packages"
case ${1:-all} in
deb) deb ;;
source) source_tarball ;;
all)
    deb
    source_tarball
    ;;
*)
    echo "package: expected deb or source, found \"$1\"" >&2
    exit 2
    ;;
esac
