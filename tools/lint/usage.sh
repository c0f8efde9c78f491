#!/usr/bin/env bash
# The program that opens the header is examples/causal.c, to the letter: what the header teaches compiles and runs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

sed -n '/^ \*     #include/,/^ \*     }$/ s/^ \*\( \{5\}\)\{0,1\}//p' include/ringattn/ringattn.h |
    diff -u - examples/causal.c
