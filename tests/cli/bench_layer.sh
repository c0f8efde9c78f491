#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_layer.sh RINGATTN: the suite runs and its results are right, with MPI where that is built in and alone; the BLAS
# is named.
set -euo pipefail
if grep -q -e __asan_init -e __tsan_init "$1"; then
    echo 'skipped: the MPI and the BLAS are not instrumented'
    exit 77
fi
if "$1" info | grep -q '^BLAS  *no$'; then
    echo 'skipped: built without a BLAS'
    exit 77
fi
"$1" info | grep -E '^BLAS  *(OpenBLAS [0-9.]+|BLIS [0-9.]+|MKL|CBLAS)'

# rows NAME...: in what was printed, each has its share of the peak and an error in tolerance.
rows() {
    local name
    for name in "$@"; do
        grep -qE "^$name +[0-9]+ +[0-9]+ .* [0-9.]+e-[0-9]+\$" <<<"$printed" || {
            echo "no row: $name"
            exit 1
        }
    done
}

printed=$("$1" bench layer --length 600,5001 --rounds 1 --threads 1)
printf '%s\n' "$printed"
rows '600 one process' '5001 one process'
if ! grep -q '^without the cases of MPI' <<<"$printed"; then
    printed=$("$1" bench layer --length 4096 --rounds 1 --only 4096)
    printf '%s\n' "$printed"
    rows '4096 one process' '4096 mpi'
fi
if "$1" bench layer --only nonsense; then exit 1; fi

# Without an mpirun there is one process.
printed=$(PATH=/nowhere "$1" bench layer --length 300 --rounds 1)
printf '%s\n' "$printed"
rows '300 one process'
if grep -q '^300 mpi' <<<"$printed"; then exit 1; fi
