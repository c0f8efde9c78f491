#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Whatever the libraries let out begins with ra_, so that nothing of ours collides with a program's own names.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/builds.sh

build gcc
shared=$(nm --dynamic --defined-only --format=posix build/src/libringattn.so | cut -d ' ' -f 1)
archive=$(nm --extern-only --defined-only --format=posix build/src/libringattn.a | sed -n 's/^\([^ ]*\) [A-Z] .*/\1/p')
if [[ $shared != *ra_forward* || $archive != *ra_forward* ]]; then
    echo "nm does not find ra_forward: nothing was checked" >&2
    exit 1
fi
for library in build/src/transport/mpi/libringattn_*mpi*.so build/src/layer/libringattn_multihead.so; do
    if [[ -e $library ]]; then shared+=$'\n'$(nm --dynamic --defined-only --format=posix "$library" | cut -d ' ' -f 1); fi
done
layer=build/src/layer/libringattn_multihead.a
if [[ -e $layer ]]; then
    archive+=$'\n'$(nm --extern-only --defined-only --format=posix "$layer" | sed -n 's/^\([^ ]*\) [A-Z] .*/\1/p')
fi
if printf '%s\n%s\n' "$shared" "$archive" | grep -v '^ra_'; then
    echo "the symbols above do not begin with ra_" >&2
    exit 1
fi
