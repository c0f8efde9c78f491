#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_compare.sh RINGATTN: every way is run, is right and is kept as a row.
set -euo pipefail
if grep -q -e __asan_init -e __tsan_init "$1"; then
    echo 'skipped: OpenBLAS is not instrumented'
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printed=$("$1" bench compare --length 300 --rounds 1 --threads 2 --output "$work/results.jsonl")
printf '%s\n' "$printed"
[[ $(grep -c '^300 tokens, ' <<<"$printed") = 6 ]] # patterns
if grep -q FAILED <<<"$printed"; then exit 1; fi

# count ROWS TEXT...: so many rows have all the texts.
count() {
    local wanted=$1 rows text
    shift
    rows=$(<"$work/results.jsonl")
    for text; do
        rows=$(grep -F -e "$text" <<<"$rows" || true)
    done
    [[ $(grep -c . <<<"$rows") = "$wanted" ]] || {
        echo "expected $wanted rows with $*, found $(grep -c . <<<"$rows")"
        exit 1
    }
}
for strategy in ring allgather broadcast; do
    for order in contiguous zigzag striped; do
        count 6 "\"strategy\":\"$strategy\"" "\"order\":\"$order\"" '"transport":"sim"' '"ring_size":4' '"status":"ok"'
    done
done
count 6 '"strategy":"ring"' '"transport":"threads"' '"ring_size":2'
count 6 '"strategy":"local"' '"method":"ringattn"'
if grep -q '^without naive attention' <<<"$printed"; then count 0 openblas; else count 2 '"method":"openblas"'; fi

# What was asked for alone, nothing of that name, and a file that cannot be written.
printed=$("$1" bench compare --length 128 --rounds 1 --only local)
if grep -q virtual <<<"$printed"; then exit 1; fi
if "$1" bench compare --length 128 --rounds 1 --only nonesuch >/dev/null 2>"$work/err"; then exit 1; fi
grep -q 'no case has "nonesuch" in its name' "$work/err"
if "$1" bench compare --length 128 --rounds 1 --only local --output /nowhere/results.jsonl 2>"$work/err"; then exit 1; fi
grep -q '/nowhere/results.jsonl: cannot be written' "$work/err"
