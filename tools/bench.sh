#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All benchmark suites as quickly as they can be, and the report of what they gave. Needs build/ringattn.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder=$PWD/build/bench
mkdir -p "$folder"
rm -f "$folder/results.jsonl"
echo "report: $folder/report.html, from $folder/results.jsonl; in about seven minutes"
status=0
build/ringattn bench all --quick --output "$folder/results.jsonl" || status=$?
build/ringattn report "$folder/results.jsonl" -o "$folder/report.html"
exit "$status"
