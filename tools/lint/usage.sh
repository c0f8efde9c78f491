#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Programs in documentation are examples to the letter: what the headers and docs/SCORES.md teach compiles and runs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# program HEADER: the one in its opening comment.
program() {
    sed -n '/^ \*     #include/,/^ \*     }$/ s/^ \*\( \{5\}\)\{0,1\}//p' "$1"
}
# unlicensed FILE: what follows its licence line.
unlicensed() {
    sed '1 { /SPDX-License-Identifier/d }' "$1"
}
program include/ringattn/ringattn.h | diff -u - <(unlicensed examples/causal.c)
program include/ringattn/multihead.h | diff -u - <(unlicensed examples/layer.c)
# shellcheck disable=SC2016 # back-quotes of Markdown
sed -n '/^```c$/,/^```$/ { /^```/!p }' docs/SCORES.md | diff -u - <(unlicensed examples/scores.c)
