#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_scores.sh RINGATTN: every case of the suite of scores is right and kept as a row, with its ratio to the plain one.
set -euo pipefail
binary=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
printed=$("$binary" bench scores --rounds 2 --length 130 --output results.jsonl)
printf '%s\n' "$printed"
for name in plain softcap alibi relative bias sinks dropout 'mask 0.5'; do
    grep -qE "^$name +[0-9].* [0-9.]+e-[0-9]+\$" <<<"$printed" || {
        echo "no row: $name"
        exit 1
    }
done
if grep -q FAILED <<<"$printed"; then exit 1; fi
grep -q '"suite":"scores","case":"softcap".*"scores":"softcap:30".*"what":"time to plain"' results.jsonl
"$binary" report results.jsonl --format md >/dev/null
# One case alone brings the plain one with it.
[[ $("$binary" bench scores --rounds 1 --length 130 --only bias | grep -cE '^(plain|bias) ') = 2 ]]
