#!/usr/bin/env bash
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
for mpi in build/src/transport/mpi/libringattn_*mpi*.so; do
    if [[ -e $mpi ]]; then shared+=$'\n'$(nm --dynamic --defined-only --format=posix "$mpi" | cut -d ' ' -f 1); fi
done
if printf '%s\n%s\n' "$shared" "$archive" | grep -v '^ra_'; then
    echo "the symbols above do not begin with ra_" >&2
    exit 1
fi
