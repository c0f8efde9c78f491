#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_memory.sh RINGATTN: the suite runs, all of its bounds hold, and it leaves nothing behind.
set -euo pipefail
if grep -q -e __asan_init -e __tsan_init "$1"; then
    echo 'skipped: sanitizers keep memory of their own'
    exit 77
fi
TMPDIR=$(mktemp -d)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT

printed=$("$1" bench memory --quick --length 1024)
printf '%s\n' "$printed"
grep -q '^   64 float32 .* yes$' <<<"$printed" # a plan
grep -q '^   16 float16 .* yes$' <<<"$printed" # a run, with figures in every column
grep -q '^slope of log(accounted' <<<"$printed"
if grep -q 'NO' <<<"$printed"; then exit 1; fi
printed=$("$1" bench memory --only rings --length 256)
if grep -E '^(plans|runs of|processes)' <<<"$printed"; then exit 1; fi
grep -q '^runs, length 256' <<<"$printed"
code=0
"$1" bench memory --only nothing || code=$?
((code == 2))
if compgen -G "$TMPDIR/ringattn-bench-*"; then exit 1; fi
