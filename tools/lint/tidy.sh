#!/usr/bin/env bash
# Static analysis with the checks in .clang-tidy, over every file that CMake compiles.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/builds.sh

configure clang -DRINGATTN_TESTS=ON
sed -nE 's/^ *"file": "(.*)",?$/\1/p' build/clang/compile_commands.json | sort -u |
    xargs -d '\n' -P "$(nproc)" -n 2 clang-tidy -p build/clang --quiet
