#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_extreme.sh RINGATTN: the suite runs in its budget, its results are right and kept as they come.
set -euo pipefail
if grep -q -e __asan_init -e __tsan_init "$1"; then
    echo 'skipped: minutes, and the runs are those of attend'
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printed=$("$1" bench extreme --length 64K,100001 --memory 32MiB --output "$work/results.jsonl")
printf '%s\n' "$printed"
[[ $(grep -cE '^dilated +[0-9]+ +[0-9]+ .* [0-9.]+e-[0-9]+$' <<<"$printed") = 2 ]]
[[ $(grep -c '"suite":"extreme"' "$work/results.jsonl") = 2 ]]
grep -qE 'as n\^(1\.0|0\.9)' <<<"$printed"
grep -qE 'as R\^-(1\.0|0\.9)' <<<"$printed"
# The system's figure: 32 MiB and what a process has anyway.
awk '$1 == "dilated" && $9 > 48 { exit 1 }' <<<"$printed"
