#!/usr/bin/env bash
# Programs in documentation are examples to the letter: what the header and docs/SCORES.md teach compiles and runs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

sed -n '/^ \*     #include/,/^ \*     }$/ s/^ \*\( \{5\}\)\{0,1\}//p' include/ringattn/ringattn.h |
    diff -u - examples/causal.c
# shellcheck disable=SC2016 # back-quotes of Markdown
sed -n '/^```c$/,/^```$/ { /^```/!p }' docs/SCORES.md | diff -u - examples/scores.c
