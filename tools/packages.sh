# SPDX-License-Identifier: Apache-2.0
# Sourced by ./dev. Installs what a job needs, by Debian package name; costs nothing when everything is there.

packages_build=(gcc libc6-dev cmake ninja-build pkg-config libjansson-dev libpng-dev libopenblas-dev)
packages_test=(g++ clang libomp-dev libclang-rt-dev llvm libcmocka-dev libsimde-dev chromium)
packages_charts=(gnuplot-nox)
packages_bench=(libopenblas0-pthread valgrind)
packages_mpi=(libopenmpi-dev openmpi-bin libmpich-dev mpich)
packages_python=(python3 python3-venv)
packages_package=(dpkg-dev file)
packages_lm=(bible-kjv bible-kjv-text bowtie-examples)
packages_lint=(clang-format clang-tidy shellcheck binutils)

installed() {
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# need LIST...: make sure that the packages of these lists are installed.
need() {
    local list package missing=() as_root=()
    if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
        echo "dev: no apt-get here: taking it that the needed tools are installed (see tools/packages.sh)" >&2
        return
    fi
    for list in "$@"; do
        local -n packages=packages_$list
        for package in "${packages[@]}"; do
            installed "$package" || missing+=("$package")
        done
    done
    ((${#missing[@]})) || return 0

    if ((EUID != 0)); then
        if ! command -v sudo >/dev/null; then
            echo "dev: these packages are missing, and only root or sudo can install them:" >&2
            echo "    apt-get install ${missing[*]}" >&2
            return 1
        fi
        as_root=(sudo)
    fi
    echo "dev: installing ${missing[*]}" >&2
    # A source that cannot be reached need not be the one that has them.
    "${as_root[@]}" apt-get update -qq || echo "dev: apt-get update had trouble, trying all the same" >&2
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
}
