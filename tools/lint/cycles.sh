#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# No cycles between the files of a folder. NAME.c and NAME.h are one unit: what it includes, it depends on.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# edges FOLDER PREFIX: "unit unit" for each include of a unit of the folder by another of its units.
edges() {
    local file unit
    for file in "$1"/*.[ch]; do
        unit=$(basename "${file%.*}")
        printf '%s %s\n' "$unit" "$unit"
        sed -nE "s|^ *# *include *\"$2/([a-z0-9_]+)\.h\".*|$unit \1|p" "$file"
    done
}

status=0
for folder in src/*/ src/transport/mpi/ bench/ cli/ report/; do
    folder=${folder%/}
    compgen -G "$folder/*.c" >/dev/null || continue
    if ! loops=$(edges "$folder" "${folder#src/}" | tsort 2>&1 >/dev/null); then
        printf '%s: files that include each other in a circle:\n%s\n' "$folder" "${loops//tsort: /}" >&2
        status=1
    fi
done
exit $status
