# SPDX-License-Identifier: Apache-2.0
# Labels that would be more than text in a page, a table, a shell or gnuplot are text.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions
command -v gnuplot >/dev/null || skip 'gnuplot is not installed'
cp "$here/../report/hostile.jsonl" .
run report hostile.jsonl --format md
run report hostile.jsonl --format csv
for output in page.html charts.svg charts.txt; do
    run report hostile.jsonl -o $output
done
grep -ciE '<(script|img|i>|b>|a href="?h)' page.html charts.svg
grep -cE $'[\x01-\x08\x0b-\x1f]' page.html charts.svg charts.txt
ls
