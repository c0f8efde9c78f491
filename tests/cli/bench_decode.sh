#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_decode.sh RINGATTN: every case of the suite of decoding is right and kept as a row.
set -euo pipefail
binary=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
printed=$("$binary" bench decode --rounds 1 --length 700 --output results.jsonl)
printf '%s\n' "$printed"
if grep -q FAILED <<<"$printed"; then exit 1; fi
[[ $(grep -c '"suite":"decode"' results.jsonl) = 27 ]]
grep -q '"case":"bf16 32:8 pages of 64".*"what":"of memory bandwidth"' results.jsonl
grep -q '"case":"int8 32:8 bshd".*"what":"time to bfloat16"' results.jsonl
grep -q '"case":"bf16 64:8 4 queries bhsd".*"what":"of peak"' results.jsonl
grep -q '"case":"f32 32:8 16 queries on 8192".*"what":"of peak"' results.jsonl
"$binary" report results.jsonl --format md >/dev/null
