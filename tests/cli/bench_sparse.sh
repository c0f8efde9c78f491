#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_sparse.sh RINGATTN: the suites of sparse patterns and of tile orders run, and their results are right.
set -euo pipefail
if grep -q -e __asan_init -e __tsan_init "$1"; then
    echo 'skipped: emulators do not run instrumented programs'
    exit 77
fi

# rows NAME...: in what was printed, each has an error in tolerance.
rows() {
    local name
    for name in "$@"; do
        grep -qE "^$name +[0-9].* [0-9.]+e-[0-9]+\$" <<<"$printed" || {
            echo "no row: $name"
            exit 1
        }
    done
}

printed=$("$1" bench sparse --rounds 1 --length 128)
printf '%s\n' "$printed"
rows dense 'blocks of 64' 'blocks of 128' window dilated 'dilated, long'

printed=$("$1" bench tiles --rounds 1 --length 256)
printf '%s\n' "$printed"
rows row serpentine hilbert
grep -q 'was the fastest' <<<"$printed"
# With nothing that could count cache misses, it says so.
printed=$(PATH=/nowhere "$1" bench tiles --rounds 1 --length 128)
rows row serpentine hilbert
grep -qE '^cache misses: (not counted|of one run)' <<<"$printed"
