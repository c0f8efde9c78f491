#!/usr/bin/env bash
# Makes a Q/K/V set, attends to it, checks rows of the result against the oracle; then measures what rings of several
# sizes hold, draws it, and leaves a report in build/demo. Needs build/ringattn, gnuplot and no input.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

PATH=$PWD/build:$PATH
reports=$PWD/build/demo
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# run COMMAND...: shows the command, then what it prints.
run() {
    echo "\$ $*"
    "$@"
}

# figure NAME: a number from the statistics; each stands on a line of its own.
figure() {
    sed -nE "s/^ *\"$1\": ([-+0-9.e]+),?\$/\1/p" stats.json
}

for tensor in q:1 k:2 v:3; do
    run ringattn generate --shape 1,8192,8,64 --seed "${tensor#*:}" --output "${tensor%:*}.npy"
done
files=(--query q.npy --key k.npy --value v.npy --output o.npy --pattern causal)
run ringattn attend "${files[@]}" --stats stats.json
awk -v seconds="$(figure compute)" -v flops="$(figure flops)" -v planned="$(figure planned_peak_bytes)" \
    -v used="$(figure peak_bytes)" -v resident="$(figure rss_peak_bytes)" -v threads="$(figure threads)" 'BEGIN {
    printf "causal attention of 8 heads over 8192 tokens: %.2f s on %d threads, %.1f GFLOP/s\n",
        seconds, threads, flops / seconds / 1e9
    printf "memory beyond the tensors: %.0f KiB planned, %.0f KiB used; the whole process: %.0f MiB\n",
        planned / 1024, used / 1024, resident / 1048576
}'
run ringattn check "${files[@]}" --rows 64
run ringattn show --pattern causal+window:6,0 --length 16

mkdir -p "$reports"
rm -f "$reports/results.jsonl"
echo "\$ ringattn bench memory --quick --length 2048 --output results.jsonl"
ringattn bench memory --quick --length 2048 --output "$reports/results.jsonl" >"$reports/memory.txt"
ringattn report "$reports/results.jsonl" -o "$reports/report.html"
echo "\$ ringattn report results.jsonl --format text"
ringattn report "$reports/results.jsonl" --format text |
    sed -n '/^Memory of a process over the ring size/,/^Memory of a process over the length/ { /over the length/!p }'
echo "report: $reports/report.html"
