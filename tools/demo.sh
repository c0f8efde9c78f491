#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Attends to a made-up Q/K/V set and checks rows of the result against the oracle; measures speed beside the machine's
# peak, and what a rank holds in rings of several sizes. Ends with what to remember, and leaves a report in build/demo.
# Needs build/ringattn, gnuplot and no input. Takes half a minute on two cores.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

PATH=$PWD/build:$PATH
reports=$PWD/build/demo
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$reports"
rm -f "$reports/results.jsonl"
cd "$work"

# show WORD...: a command as one would type it.
show() {
    local word
    printf '$'
    for word in "$@"; do
        if [[ $word == *' '* ]]; then printf " '%s'" "$word"; else printf ' %s' "$word"; fi
    done
    echo
}

# run COMMAND...: shows the command, then what it prints.
run() {
    show "$@"
    "$@"
}

# measure SUITE OPTIONS...: shows the command; its table goes to build/demo/SUITE.txt, its rows to results.jsonl.
measure() {
    show ringattn bench "$@" --output results.jsonl
    ringattn bench "$@" --output "$reports/results.jsonl" >"$reports/$1.txt" 2>"$reports/$1.err" || {
        cat "$reports/$1.txt" "$reports/$1.err"
        return 1
    }
}

for tensor in q:1 k:2 v:3; do
    run ringattn generate --shape 1,8K,8,64 --seed "${tensor#*:}" --output "${tensor%:*}.npy"
done
files=(--query q.npy --key k.npy --value v.npy --output o.npy --pattern causal)
run ringattn attend "${files[@]}"
run ringattn check "${files[@]}" --rows 64 | tee check.txt
run ringattn show --pattern causal+window:6,0 --length 16
measure kernel --quick --only '8192 d64 causal'
measure memory --only rings --length 16384
show ringattn report results.jsonl --section memory --format text
ringattn report "$reports/results.jsonl" --section memory --format text >memory.txt
sed -n '/^Memory of a rank over/,$ p' memory.txt
ringattn report "$reports/results.jsonl" -o "$reports/report.html"

# field SUITE NAME: the number of that name in each of its float32 rows, in their order.
field() {
    sed -nE "/\"suite\":\"$1\".*\"dtype\":\"float32\"/ s/.*\"$2\":([-+0-9.e]+).*/\1/p" "$reports/results.jsonl"
}

error=$(sed -nE 's/^output: largest error ([^,]+),.*/\1/p' check.txt)
fixed=$(sed -nE 's/.*beyond a fixed ([0-9.]+ [KM]iB), .*/\1/p' memory.txt | head -n 1)
echo
echo "To remember"
awk -v error="$error" -v speed="$(field kernel gflops)" -v peak="$(field kernel peak_gflops)" 'BEGIN {
    printf "  attention is right to %.1e, beside an oracle in double precision\n", error
    printf "  %.0f GFLOP/s of %.0f, the multiply-add peak of this machine, measured in this run\n", speed, peak
}'
paste <(field memory ring_size) <(field memory planned_peak_bytes) | awk -v fixed="${fixed:-0 MiB}" '
    { line = line sprintf("%s%.1f", NR > 1 ? ", " : "", $2 / 1048576) }
    END {
        printf "  memory of a rank halves each time R doubles, beyond a fixed %s:\n", fixed
        printf "  %s MiB for R = 2, 4, ... %d\n", line, $1
    }'
cat <<TEXT
Next
  build/demo/report.html       all that was measured, as a page
  build/ringattn --help        the verbs
  ./dev python                 the Python package
  ./dev test quick             the tests for a look, in three minutes
TEXT
