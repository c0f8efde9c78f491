# SPDX-License-Identifier: Apache-2.0
# Lines that are no rows, files without any, outputs that cannot be: said, and nothing is written.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions
results=$here/../report/results.jsonl
row=$(grep '"local full"' "$results" | head -n 1)
# attempt ARGS...: of what it prints, what it was asked, what it said and what it counted.
attempt() {
    run report "$@" | grep -E '^([$!]|exit|- [0-9]+ (rows|lines))'
}
# without ARGS...: the same where there is no gnuplot.
without() {
    printf '$ ringattn report %s (no gnuplot)\n' "$*"
    PATH=/nowhere "$binary" report "$@" 2>&1
    echo "exit $?"
}

# Among others.
{
    echo "$row"
    echo
    echo 'not JSON at all'
    echo "${row:0:300}"
    echo "${row/\"schema\":1/\"schema\":2}"
    echo "${row/\"suite\":\"compare\",/}"
    echo "${row/\"q_len\":4096/\"q_len\":-4096}"
    echo "${row/\"median\":/\"median\":1e999,\"x\":}"
    echo "${row/\"median\":/\"median\":NaN,\"x\":}"
    printf '%s\0%s\n' "${row:0:20}" "${row:20}"
    echo "${row/\"problem\":/\"problem\":$(printf '[%.0s' {1..5000}),\"x\":}"
    echo "[${row}]"
    printf '\xff\xfe\n'
    printf '%s' "${row/\"local full\"/\"another\"}"
} >mixed.jsonl
attempt mixed.jsonl --format md
yes 'no row' | head -n 30 >many.jsonl
echo "$row" >>many.jsonl
attempt many.jsonl --format csv

# Nothing to report.
: >empty.jsonl
attempt empty.jsonl --format md
attempt many.jsonl empty.jsonl --format csv
head -n 2 many.jsonl >none.jsonl
attempt none.jsonl --format md -o report.md
attempt missing.jsonl --format md
attempt . --format md

# Usage.
echo "$row" >one.jsonl
attempt
attempt one.jsonl
attempt one.jsonl --format svg
attempt one.jsonl --format pdf
attempt one.jsonl -o
attempt one.jsonl -q
attempt one.jsonl --format md --section nothing
attempt one.jsonl --format md --section backward
attempt one.jsonl --format md --section failed
attempt one.jsonl --format csv --section memory
attempt one.jsonl -o one.jsonl
attempt one.jsonl -o ./one.jsonl --format md
attempt one.jsonl -o nowhere/report.md
attempt one.jsonl -o . --format md
{ "$binary" report one.jsonl --format csv >/dev/full; } 2>&1
echo "exit $?"

# Without gnuplot.
without one.jsonl -o report.html
without one.jsonl -o report.svg
without one.jsonl --format text
without one.jsonl -o report.md
without one.jsonl -o report.csv
# One that fails, and one that draws something else.
mkdir bin
printf '#!/bin/sh\necho "no terminal today" >&2\nexit 3\n' >bin/gnuplot
chmod +x bin/gnuplot
PATH=$PWD/bin:$PATH attempt one.jsonl -o report.html
printf '#!/bin/sh\ncat >/dev/null\necho "<svg></svg>"\n' >bin/gnuplot
PATH=$PWD/bin:$PATH attempt one.jsonl -o report.html
printf '#!/bin/sh\ncat >/dev/null\necho "<svg><g id=\\"gnuplot_canvas\\"></g></svg>"\n' >bin/gnuplot
PATH=$PWD/bin:$PATH attempt one.jsonl -o report.html
ls
