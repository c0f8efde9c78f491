#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run_mpi.sh CMAKE GENERATOR BUILD CC NAME: installs BUILD, made for the MPI called NAME, and beside it a build for the other
# MPI where that is here too. Builds and runs MPI programs in every way that the packages offer, and in wrong ones.
set -euo pipefail

cmake=$1 generator=$2 build=$3 cc=$4 name=$5
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source=$(cd "$here/../.." && pwd)
program=$source/examples/ring_mpi.c
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "package: $*" >&2
    exit 1
}

# compiler NAME: the wrapper of an MPI; the one without a name where there is one MPI only.
compiler() {
    if command -v "mpicc.$1" >/dev/null; then echo "mpicc.$1"; else echo mpicc; fi
}

# words NAME: what an MPI calls itself.
words() {
    if [[ $1 == openmpi ]]; then echo 'Open MPI'; else echo MPICH; fi
}

# run_two NAME PROGRAM: on two ranks of that MPI.
run_two() {
    local mpirun=(mpirun)
    if command -v "mpirun.$1" >/dev/null; then mpirun=("mpirun.$1"); fi
    if [[ $1 == openmpi ]]; then mpirun+=(--allow-run-as-root --oversubscribe); fi
    "${mpirun[@]}" -n 2 "$2" >"$work/out" 2>&1 || fail "$2 failed: $(cat "$work/out")"
    grep -q '^rank 1: 2048 rows, 1 hops' "$work/out" || fail "$2 printed: $(cat "$work/out")"
}

# by_pkg_config NAME PACKAGE
by_pkg_config() {
    local flags
    read -ra flags < <(pkg-config --cflags --libs "$2")
    "$(compiler "$1")" "$program" -o "$work/program" "${flags[@]}" \
        -Wl,-rpath,"$(pkg-config --variable=libdir "$2")" || fail "$2: the program does not compile"
    run_two "$1" "$work/program"
}

# by_cmake NAME
by_cmake() {
    local way
    "$cmake" -S "$here/consumer_mpi" -B "$work/build_$1" -G "$generator" -DCMAKE_PREFIX_PATH="$prefix" \
        -DCMAKE_C_COMPILER="$cc" -DMPI_C_COMPILER="$(compiler "$1")" -DNAME="$1" -DPROGRAM="$program" >"$work/log" 2>&1 ||
        fail "$(cat "$work/log")"
    "$cmake" --build "$work/build_$1" >"$work/log" || fail "$(cat "$work/log")"
    for way in "$1" "$1_static" mpi mpi_static; do
        run_two "$1" "$work/build_$1/$way"
    done
    readelf -d "$work/build_$1/mpi" | grep -q "libringattn_$1\.so" || fail "ringattn::mpi is not that of $1"
}

# refused WORDS COMMAND...: does not compile, and says why.
refused() {
    if "${@:2}" 2>"$work/err"; then fail "compiles: ${*:2}"; fi
    grep -qF "error \"ringattn: $1" "$work/err" || fail "${*:2} says: $(cat "$work/err")"
}

# wrong_library NAME OTHER: a program of OTHER with the library for NAME, at run time.
wrong_library() {
    "$(compiler "$2")" "$here/consumer_mpi/wrong.c" -o "$work/wrong" -L"$lib" -Wl,-rpath,"$lib" "-lringattn_$1" -lringattn
    "$work/wrong" >"$work/out" 2>&1 || fail "libringattn_$1 with the other MPI: exit $?: $(cat "$work/out")"
    grep -q "^this program runs with $(words "$2").*was built for $(words "$1"): link libringattn_$2 instead" "$work/out" ||
        fail "libringattn_$1 with the other MPI: $(cat "$work/out")"
    (($(grep -cx 2 "$work/out") == 2)) || fail "libringattn_$1 with the other MPI: $(cat "$work/out")"
}

"$cmake" --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/prefix" # a path that was baked in now points nowhere
prefix=$work/prefix
lib=$(dirname "$(find "$prefix" -name libringattn.so)")
export PKG_CONFIG_PATH=$lib/pkgconfig

echo "$name alone"
by_pkg_config "$name" "ringattn_$name"
by_pkg_config "$name" ringattn_mpi
by_cmake "$name"
"$prefix/bin/ringattn.$name" info | grep -q "^MPI .*$(words "$name")" || fail "ringattn.$name has another MPI"

other=mpich
if [[ $name == mpich ]]; then other=openmpi; fi
if ! command -v "mpicc.$other" >/dev/null || ! command -v "mpicc.$name" >/dev/null; then
    echo "there is one MPI only"
    exit 0
fi
echo "$other is refused where there is $name only"
refused "compiled with $(words "$other"), but only libringattn_$name, for $(words "$name"), is" \
    "mpicc.$other" -fsyntax-only -I"$prefix/include" "$program"

if [[ $name != openmpi ]]; then
    echo "both in one prefix: beside the build for Open MPI"
    exit 0
fi
echo "both in one prefix"
"$cmake" -S "$source" -B "$work/other" -G "$generator" -DCMAKE_C_COMPILER="$cc" -DCMAKE_BUILD_TYPE=None \
    -DCMAKE_C_FLAGS=-O1 -DRINGATTN_MPI="$other" -DRINGATTN_COMMAND=OFF -DRINGATTN_TESTS=OFF >"$work/log" 2>&1 ||
    fail "$(cat "$work/log")"
"$cmake" --build "$work/other" --parallel "$(nproc)" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
"$cmake" --install "$work/other" --prefix "$prefix" >/dev/null
for each in "$name" "$other"; do
    by_pkg_config "$each" "ringattn_$each"
    rm -rf "$work/build_$each"
    by_cmake "$each"
done
by_pkg_config "$other" ringattn_mpi # the last one
"$cmake" --install "$build" --prefix "$prefix" >/dev/null
by_pkg_config "$name" ringattn_mpi

echo "one MPI's compiler with the other's library"
for each in "$name" "$other"; do
    wrong=$name
    if [[ $each == "$name" ]]; then wrong=$other; fi
    read -ra flags < <(pkg-config --cflags "ringattn_$each")
    refused "compiled with $(words "$wrong"), but libringattn_$each is for $(words "$each")" \
        "mpicc.$wrong" -fsyntax-only "${flags[@]}" "$program"
    wrong_library "$each" "$wrong"
done
