# SPDX-License-Identifier: Apache-2.0
# The page but for its charts, which are gnuplot's, and as many points as there are values; the charts alone; a terminal.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions
command -v gnuplot >/dev/null || skip 'gnuplot is not installed'
cp "$here/../report/results.jsonl" .
run report results.jsonl -o report.html
sed -E '/<g id="[a-z-]+-gnuplot_canvas">/,/^<\/svg>/ d' report.html
grep -c '<g class="point"><title>[^<]' report.html
grep -o 'data-points="[0-9]*"' report.html
sed -n '/<g class="point">/,/<\/title>/ { s/<use.*//; p }' report.html | head -12
if grep -E 'https?:|@import|url\(' report.html; then echo 'names something outside'; fi

run report results.jsonl -o charts.svg
grep -c '<g class="point"><title>[^<]' charts.svg
sed -nE 's/^.*<text class="(title|legend)"[^>]*>(.*)<\/text>$/\1: \2/p' charts.svg

# All of the terminal's but the drawings.
run report results.jsonl --format text >printed.txt
grep -E '^(==|- |  [A-Z-] |[A-Z][a-z].* over )' printed.txt
run report results.jsonl -o charts.txt
cmp <(tail -n +2 printed.txt) charts.txt
awk 'length > 79 { print "too wide: " $0 }' charts.txt
ls

# One section alone, as a picture.
run report results.jsonl --section memory -o memory.svg
sed -nE 's/^.*<text class="(title|legend)"[^>]*>(.*)<\/text>$/\1: \2/p' memory.svg
run report results.jsonl --section memory --format text >printed.txt
grep -E '^(==|- |  [A-Z-] |[A-Z][a-z].* over |Not shown)' printed.txt
