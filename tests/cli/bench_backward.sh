#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_backward.sh RINGATTN: gradients of every case are right and kept as rows, which report and --compare take.
set -euo pipefail
binary=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
printed=$("$binary" bench backward --length 130 --rounds 3 --threads 2 --output results.jsonl)
printf '%s\n' "$printed"
if grep -q FAILED <<<"$printed"; then exit 1; fi

# count ROWS TEXT...: so many rows have all the texts.
count() {
    local wanted=$1 rows text
    shift
    rows=$(<results.jsonl)
    for text; do
        rows=$(grep -F -e "$text" <<<"$rows" || true)
    done
    [[ $(grep -c . <<<"$rows") = "$wanted" ]] || {
        echo "expected $wanted rows with $*, found $(grep -c . <<<"$rows")"
        exit 1
    }
}
# Cases that differ in nothing but the length are one; those of AVX2 and AVX512_BF16 need a processor that has it.
avx2=$(grep -c ' avx2 ' <<<"$printed" || true)
fast=$(grep -c ' avx512bf16 ' <<<"$printed" || true)
own=$(("$(grep -c '^130 d' <<<"$printed")" - avx2 - fast))
((own == 10))
((fast == 0 || fast == 2))
count $((own + avx2 + fast)) '"suite":"backward"' '"direction":"backward"' '"status":"ok"' '"strategy":"local"' '"rows":18'
count $((1 + fast)) '"dtype":"bfloat16"'
count 1 '"dtype":"float16"'
count 1 '"heads":32,"kv_heads":8'
count 1 '"batch":4' '"heads":12' '"pattern":"causal"'
count 1 '"pattern":"dilated:2048/1,4096/2,8192/4"'
count 0 '"goal"' # they are for other lengths

# The page has a section of them; a file has not changed beside itself, and a wrong gradient is seen.
"$binary" report results.jsonl --format md >report.md
grep -q "^- $((own + avx2 + fast)) backward passes reach " report.md
grep -q '^| 130 d64 full one head | .* | backward, one piece, 2 threads |' report.md
"$binary" bench --compare results.jsonl results.jsonl | grep -q '^0 regressions'
sed -E '/full one head/ s/"largest":[^,]+/"largest":1.5/' results.jsonl >wrong.jsonl
if "$binary" bench --compare results.jsonl wrong.jsonl >compared; then exit 1; fi
grep -q '^FAILS NOW   backward: 130 d64 full one head; backward, one piece, 2 threads$' compared

# What was asked for alone, with its goal at its own length, and nothing of that name.
printed=$("$binary" bench backward --rounds 1 --only '512 d64 causal' --output one.jsonl)
[[ $(grep -c '^512 d64 causal 4 x 12 heads' <<<"$printed") = 1 ]]
[[ $(grep -c . one.jsonl) = 1 ]]
grep -q '"against":{"what":"of peak","value":[0-9.e-]*,"goal":0.6' one.jsonl
if "$binary" bench backward --length 128 --rounds 1 --only nonesuch >/dev/null 2>err; then exit 1; fi
grep -q 'no case has "nonesuch" in its name' err
if "$binary" bench backward --length 128 --rounds 1 --output /nowhere/results.jsonl 2>err; then exit 1; fi
grep -q '/nowhere/results.jsonl: cannot be written' err
