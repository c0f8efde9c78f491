#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh RINGATTN TEST_PAGE: reports of good and of hostile rows, opened in chromium.
set -euo pipefail
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
results=$here/../report
if ! chromium=$(command -v chromium || command -v chromium-browser); then
    echo 'skipped: chromium is not installed'
    exit 77
fi
work=$(mktemp -d)
# Processes of the browser that outlive it by a moment still write their files.
trap 'rm -rf "$work" 2>/dev/null || { sleep 2; rm -rf "$work"; }' EXIT

# rows FILE TEXT...: how many lines have all the texts.
rows() {
    local file=$results/$1 text found
    found=$(<"$file")
    for text in "${@:2}"; do found=$(grep -F -e "$text" <<<"$found" || true); done
    grep -c . <<<"$found" || true
}

# page FILE CHART=POINTS...: its report has these charts.
page() {
    local profile
    profile=$(mktemp -d "$work/profile.XXXXXX")
    "$ringattn" report "$results/$1" -o "$work/report.html"
    HOME=$work "$test_page" "$chromium" "$profile" "$here/look.js" "$work/report.html" "${@:2}"
}

ringattn=$(realpath "$1") test_page=$(realpath "$2")
ok='"status":"ok"'
runs=$(rows results.jsonl '"run 16384 R=' '"float32"')
lengths=$(rows results.jsonl '"plan ' '"ring_size":8,')
compared=$(($(rows results.jsonl '"suite":"compare"') + $(rows results.jsonl '"suite":"seed-table"')))
page results.jsonl \
    speed-peak="$(rows results.jsonl '"suite":"kernel"' "$ok")" \
    speed-others=0 \
    speed-lengths=2 \
    memory-rings=$((2 * runs)) \
    memory-lengths=$((lengths + 1)) \
    throughput=$compared \
    speed-up=$(($(rows results.jsonl '"suite":"ring"' '"transport":"mpi"' "$ok") + $(rows results.jsonl '"suite":"ring"' '"transport":"threads"'))) \
    efficiency="$(rows results.jsonl '"suite":"ring"' '"strategy":"ring"' "$ok")" \
    roofline=$(($(rows results.jsonl '"gflops"') - 1)) \
    dilated-cost="$(rows results.jsonl '"pattern":"dilated:')" \
    dilated-memory="$(rows results.jsonl '"pattern":"dilated:' '"peak_bytes"')"

# Rows that would be more than text, were they not escaped.
page hostile.jsonl throughput=1 speed-up=1 efficiency=1 roofline=3
