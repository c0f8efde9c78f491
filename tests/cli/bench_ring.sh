#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_ring.sh RINGATTN: the suite runs and its results are right, with MPI where that is built in and alone.
set -euo pipefail
if grep -q -e __asan_init -e __tsan_init "$1"; then
    echo 'skipped: the MPI that is built in is not instrumented'
    exit 77
fi

# rows NAME...: in what was printed, each has its ratio and an error in tolerance.
rows() {
    local name
    for name in "$@"; do
        grep -qE "^$name +[0-9]+ +[0-9]+ .* [0-9.]+e-[0-9]+\$" <<<"$printed" || {
            echo "no row: $name"
            exit 1
        }
    done
}

printed=$("$1" bench ring --quick --length 512 --rounds 1)
printf '%s\n' "$printed"
rows 'local full' 'sim full' 'threads full' 'local causal'
if ! grep -q '^without the cases of MPI' <<<"$printed"; then
    rows 'mpi full' 'mpi causal zigzag' 'mpi causal contiguous'
fi

# Without an mpirun, and only what was asked for with what it is compared with.
printed=$(PATH=/nowhere "$1" bench ring --length 512 --rounds 1 --only sim)
printf '%s\n' "$printed"
rows 'local full' 'sim full'
if grep -qE '^(threads full|local causal)' <<<"$printed"; then exit 1; fi
