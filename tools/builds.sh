# SPDX-License-Identifier: Apache-2.0
# Sourced by ./dev and the scripts beside this one. The build configurations, one folder each, and the list of sources.

folder_of() {
    if [[ $1 == gcc ]]; then echo build; else echo "build/$1"; fi
}

# The build with gcc takes the first MPI there is, Open MPI where it is installed; the one with clang takes MPICH, so that
# both are tested. Sanitized builds have none: what MPI libraries do inside is not ours.
other_mpi() {
    if command -v mpicc.mpich >/dev/null; then echo mpich; else echo AUTO; fi
}

# configure NAME [CMAKE OPTIONS]: gcc | clang | address | thread | fuzz
configure() {
    local name=$1 compiler=clang type=Release flags="" mpi=OFF only=()
    shift
    # Sanitized code is optimised a little: slow enough to be found out, fast enough to be run every time.
    local -r sanitized='-O1 -gline-tables-only -fno-omit-frame-pointer -fno-sanitize-recover=all'
    case $name in
    gcc) compiler=gcc mpi=AUTO ;;
    clang) mpi=$(other_mpi) ;;
    address) type=None flags="$sanitized -fsanitize=address,undefined" ;;
    # The tests of the kernels, which need the emulated table, are not run there.
    thread) type=None flags="$sanitized -fsanitize=thread" only=(-DSIMDE_INCLUDE=OFF) ;;
    fuzz) type=None flags="$sanitized -fsanitize=address,undefined,fuzzer-no-link" ;;
    *)
        echo "no such configuration: $name" >&2
        return 1
        ;;
    esac
    # A folder that was configured by hand keeps its generator.
    local generator=(-G Ninja)
    [[ -e $(folder_of "$name")/CMakeCache.txt ]] && generator=()
    cmake -S . -B "$(folder_of "$name")" "${generator[@]}" --log-level=WARNING --no-warn-unused-cli \
        -DCMAKE_C_COMPILER="$compiler" -DCMAKE_CXX_COMPILER="${compiler/%gcc/g}++" \
        -DCMAKE_BUILD_TYPE="$type" -DCMAKE_C_FLAGS="$flags" -DCMAKE_CXX_FLAGS="$flags" \
        -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DRINGATTN_MPI="$mpi" "${only[@]}" "$@" >/dev/null
}

# build NAME [CMAKE OPTIONS]: silent when all is well
build() {
    local log
    log=$(folder_of "$1")/build.log
    configure "$@" || return
    cmake --build "$(folder_of "$1")" --parallel "$(nproc)" >"$log" 2>&1 || {
        cat "$log"
        return 1
    }
}

# Every C and C++ file of the project, separated by zero bytes.
sources() {
    find include src cli bench report tests examples \( -name '*.[ch]' -o -name '*.cpp' \) -print0
}
