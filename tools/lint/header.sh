#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The public headers need nothing before them, in C11 and in C++17, with either compiler.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

strict=(-Wall -Wextra -pedantic -Werror -fsyntax-only -I. -Iinclude)
check() {
    local header=$1 compiler
    shift
    for compiler in gcc clang; do
        "$compiler" -x c -std=c11 "${strict[@]}" "$@" - <<<"#include \"$header\""
    done
    for compiler in g++ clang++; do
        "$compiler" -x c++ -std=c++17 "${strict[@]}" "$@" - <<<"#include \"$header\""
    done
}

for header in include/ringattn/*.h; do
    if [[ $header != */mpi.h ]]; then
        check "$header"
        continue
    fi
    # With each MPI that is here; its own headers are not ours to judge.
    for wrapper in mpicc.openmpi mpicc.mpich; do
        command -v "$wrapper" >/dev/null || continue
        mapfile -t flags < <("$wrapper" -show | grep -oE -- '-I[^ ]+' | sed 's/^-I/-isystem/')
        check "$header" "${flags[@]}"
    done
done
