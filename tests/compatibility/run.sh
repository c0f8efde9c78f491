#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh CC LIBRARY VERSION: what was made for VERSION works with LIBRARY (libringattn.so.N) and with today's headers.
# VERSION/ringattn/ has that version's headers, VERSION/symbols.txt what its library exported.
set -euo pipefail

cc=$1 library=$(realpath --no-symlinks "$2") version=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
include=$here/../../include
old=$here/$version
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "compatibility with $version: $*" >&2
    exit 1
}

# lacking WHAT OLD NEW: fails with the lines of OLD that are not in NEW.
lacking() {
    local missing
    missing=$(comm -23 <(sort -u "$2") <(sort -u "$3"))
    [[ -z $missing ]] || fail "$1 that are gone or have changed:"$'\n'"$missing"
    [[ -s $2 ]] || fail "found no $1 at all"
}

echo "symbols"
nm --dynamic --defined-only --format=posix "$library" | cut -d ' ' -f 1 >symbols
lacking "symbols" "$old/symbols.txt" symbols

echo "enumerators"
for header in ringattn transport; do
    for folder in "$old" "$include"; do
        grep -oE '\bRA_[A-Z0-9_]+ = -?[0-9]+' "$folder/ringattn/$header.h" >>"enumerators_$(basename "$folder")" || true
    done
done
lacking "enumerators" "enumerators_$version" enumerators_include

echo "functions"
{
    echo '#include <ringattn/transport.h>'
    cat "$old"/ringattn/*.h | awk 'BEGIN { RS = ";" } /RA_API/ { sub(/.*RA_API/, "extern"); print $0 ";" }'
} >functions.c
(($(grep -c '^extern' functions.c) > 50)) || fail "found $(grep -c '^extern' functions.c) functions only"
"$cc" -std=c11 -Werror -fsyntax-only -I"$include" functions.c || fail "functions have other types now"

# layouts INCLUDE: "struct offset field" for every field of a public struct, and "struct | [sizeof=...".
layouts() {
    clang -x c -fsyntax-only -Xclang -fdump-record-layouts-complete -I"$1" - <<<'#include <ringattn/transport.h>' |
        awk '/\| struct / { struct = $4 } (/\|   [^ ]/ || /sizeof=/) && struct ~ /^ra_/ { print struct, $0 }'
}

# sizes LAYOUTS: "struct size fields" for every public struct.
sizes() {
    awk '!/sizeof=/ { fields[$1]++ } /sizeof=/ { match($0, /sizeof=[0-9]+/); size[$1] = substr($0, RSTART + 7, RLENGTH - 7) }
        END { for (struct in size) print struct, size[struct], fields[struct] }' "$1" | sort
}

if command -v clang >/dev/null; then
    echo "layouts"
    layouts "$old" >layouts_old
    layouts "$include" >layouts_new
    grep -v sizeof= layouts_old >fields_old
    lacking "fields" fields_old layouts_new
    # A field in what was padding would be read of programs that have never set it.
    unseen=$(join <(sizes layouts_old) <(sizes layouts_new) | awk '$2 == $4 && $3 != $5 { print $1 }')
    [[ -z $unseen ]] || fail "structs have new fields and the same size: $unseen"
fi

echo "a program"
# That version's library, as far as a linker looks at it: its name and its symbols.
soname=$(readelf -d "$library" | sed -nE 's/.*SONAME.*\[(.*)\]/\1/p')
sed 's/.*/void &(void) {}/' "$old/symbols.txt" | "$cc" -x c -shared -fPIC -o libringattn.so -Wl,-soname,libringattn.so.0 -
[[ $soname == libringattn.so.0 ]] || fail "the library is $soname now"
"$cc" -std=c11 -Wall -Wextra -Werror -I"$old" "$here/program.c" -o program -L. -lringattn -lm
LD_LIBRARY_PATH=$(dirname "$library") ./program file.npy
