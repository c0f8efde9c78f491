#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# first_change.sh BUILD CC: makes the change of docs/FIRST_CHANGE.md in a copy of the sources, and runs the test that the
# page adds to, in front of the library of BUILD. Then it makes the page's mistake, and the test must fail.
set -euo pipefail
build=$(realpath "$1") cc=$2
tree=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
page=$tree/docs/FIRST_CHANGE.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$tree/src" "$tree/include" "$tree/tests" "$tree/cli" "$work"
cd "$work"

# block KIND: the page's code blocks of this kind.
block() { sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/ { /^\`\`\`/!p }" "$page"; }

block c >src/plan/term_ahead.c
block diff | patch --quiet --strip 1
flags=(-std=c11 -D_DEFAULT_SOURCE -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Werror -Isrc -Iinclude -Itests -Icli -I.)
try() {
    read -ra libraries < <(pkg-config --libs cmocka jansson)
    "$cc" "${flags[@]}" src/plan/pattern.c src/plan/term_ahead.c tests/unit/test_pattern.c tests/support/sample.c \
        "$build/tests/support/libtest_support.a" "$build/src/libringattn.a" "${libraries[@]}" -fopenmp -lm -o try
    ./try >log 2>&1
}
try || { cat log && exit 1; }

mistake=$(sed -n 's/^    expression //p' "$page") instead=$(sed -n 's/^    instead //p' "$page")
code=$(<src/plan/term_ahead.c)
printf '%s\n' "${code/"$mistake"/"$instead"}" >src/plan/term_ahead.c
grep -qF -- "return (ra_interval){0, $instead};" src/plan/term_ahead.c
if try; then
    echo "the page's mistake is not noticed" >&2
    exit 1
fi
grep -q 'FAILED' log
