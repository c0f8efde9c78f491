#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Static analysis with the checks in .clang-tidy, over every file that CMake compiles. RINGATTN_TIDY_NODES limits how far
# the analyser follows the paths of a function; its own limit takes five times as long.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/builds.sh

limit=()
if [[ -n ${RINGATTN_TIDY_NODES:-} ]]; then
    limit=(--extra-arg={-Xclang,-analyzer-config,-Xclang,"max-nodes=$RINGATTN_TIDY_NODES"})
fi
configure clang -DRINGATTN_TESTS=ON
sed -nE 's/^ *"file": "(.*)",?$/\1/p' build/clang/compile_commands.json | sort -u |
    xargs -d '\n' -P "$(nproc)" -n 2 clang-tidy -p build/clang --quiet "${limit[@]}"
