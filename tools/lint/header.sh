#!/usr/bin/env bash
# The public header needs nothing before it, in C11 and in C++17, with either compiler.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

strict=(-Wall -Wextra -pedantic -Werror -fsyntax-only -I. -Iinclude)
for header in include/ringattn/*.h; do
    for compiler in gcc clang; do
        "$compiler" -x c -std=c11 "${strict[@]}" - <<<"#include \"$header\""
    done
    for compiler in g++ clang++; do
        "$compiler" -x c++ -std=c++17 "${strict[@]}" - <<<"#include \"$header\""
    done
done
