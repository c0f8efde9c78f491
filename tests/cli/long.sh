#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# long.sh RINGATTN LENGTH: a long dilated run with a hard limit of 512 MiB on the process's address space.
set -euo pipefail
if grep -q -e __asan_init -e __tsan_init "$1"; then
    echo 'skipped: a sanitizer takes more address space than that by itself'
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(
    ulimit -v $((512 << 10))
    "$1" attend --query gen:1 --key gen:2 --value gen:3 --shape "1,$2,1,64" --distribution uniform --output null \
        --pattern dilated:512/1,1024/2,2048/4,4096/6,8192/12 --memory 320MiB --stats "$work/stats.json"
)
grep -E '"(ring_size|rss_peak_bytes)"' "$work/stats.json" | head -2
