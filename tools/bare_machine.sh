#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/bare_machine.sh [COMMAND...]: ./dev demo and ./dev test, or ./dev COMMAND..., in a fresh Debian 12 that has nothing
# but bash and apt. The sources are those of the source tarball (tools/package.sh source): the last commit, without git.
# By root; `./dev test` takes 20 GB of disk there. The folder is removed at the end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/debian_root.sh

mkdir -p build
root=$(mktemp -d "$PWD/build/bare.XXXXXX")
trap 'remove_root "$root"' EXIT

say() {
    printf '== %5d s  %s\n' $SECONDS "$*"
}

# try ARGS...: ./dev ARGS there, and whether it succeeded.
try() {
    say "./dev $*"
    if inside "$root" bash -c 'cd /ringattn-*/ && ./dev "$@"' dev "$@"; then
        say "./dev $*: succeeded"
    else
        say "./dev $*: failed"
        failed=1
    fi
}

failed=0
tarball=$(tools/package.sh source)
say "debootstrap"
make_root "$root"
tar -xzf "$tarball" -C "$root"
say "packages there: $(inside "$root" dpkg-query -W | wc -l), and none of $(
    for tool in git gcc cmake python3 make; do
        inside "$root" bash -c "command -v $tool" >/dev/null || printf '%s ' "$tool"
    done)"
if (($#)); then
    try "$@"
else
    try demo
    try test
fi
say "packages there: $(inside "$root" dpkg-query -W | wc -l)"
exit $failed
