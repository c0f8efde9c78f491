#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/fuzz.sh TARGET SECONDS: starts from the kept corpus and leaves it alone. Inputs that reach new code are left in
# build/fuzz/found/TARGET, those that break something in build/fuzz/broken.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target=$1 seconds=$2
if [[ ! $seconds =~ ^[1-9][0-9]*$ ]]; then
    echo "fuzz: \"$seconds\" seconds: expected a whole number from 1 on" >&2
    exit 2
fi
found=build/fuzz/found/$target
dictionary=tests/fuzz/$target.dict
mkdir -p "$found" build/fuzz/broken

options=(-max_total_time="$seconds" -max_len=4096 -timeout=10
    -artifact_prefix="build/fuzz/broken/$target-")
[[ -f $dictionary ]] && options+=(-dict="$dictionary")
build/fuzz/tests/fuzz_"$target" "${options[@]}" "$found" "tests/fuzz/corpus/$target"
