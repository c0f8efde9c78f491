#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/lint/licence.sh [--write]: every source file names its licence, in its first line or below `#!` or `#compdef`.
# --write adds the line where it is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

name='SPDX-License-Identifier: Apache-2.0'

# add FILE: the line, as a comment of its language.
add() {
    local line="# $name"
    case $1 in
    *.c | *.h | *.cpp | *.js | *.map) line="/* $name */" ;;
    esac
    if [[ $(head -n 1 "$1") == '#!'* || $(head -n 1 "$1") == '#compdef'* ]]; then
        sed -i "1 a $line" "$1"
    elif [[ -s $1 ]]; then
        sed -i "1 i $line" "$1"
    else
        echo "$line" >"$1"
    fi
}

status=0
while IFS= read -r -d '' file; do
    if sed 2q "$file" | grep -qF "$name"; then continue; fi
    if [[ ${1:-} == --write ]]; then
        add "$file"
    else
        echo "$file: does not name its licence: ./dev format adds the line" >&2
        status=1
    fi
done < <(find . \( -path ./build -o -path ./.git \) -prune -o -type f \( -name '*.[ch]' -o -name '*.cpp' -o -name '*.sh' \
    -o -name '*.py' -o -name '*.js' -o -name '*.cmake' -o -name '*.in' -o -name '*.map' -o -name CMakeLists.txt \
    -o -name '*.toml' -o -name dev -o -name _ringattn -o -name ringattn.bash -o -path ./.ci/run \) -print0)
exit $status
