#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run_layer.sh CMAKE GENERATOR BUILD CC VERSION: installs BUILD, moves the prefix, and builds a program with the multi-head
# layer by CMake and by pkg-config. The core must need no BLAS.
set -euo pipefail

cmake=$1 generator=$2 build=$3 cc=$4 version=$5
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
program=$here/../../examples/layer.c
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "package: $*" >&2
    exit 1
}

# runs PROGRAM: it runs, and says which BLAS it has.
runs() {
    "$1" >"$work/out" 2>&1 || fail "$1 failed: $(cat "$work/out")"
    grep -qE ' flops, (OpenBLAS|BLIS|MKL|CBLAS)' "$work/out" || fail "$1 printed: $(cat "$work/out")"
}

"$cmake" --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/prefix" # a path that was baked in now points nowhere
prefix=$work/prefix
shared=$(find "$prefix" -name libringattn_multihead.so)
[[ -n $shared ]] || fail "the library is missing"

echo "SONAME, exported symbols, and who needs a BLAS"
readelf -d "$shared" | grep -q 'SONAME.*\[libringattn_multihead\.so\.'"${version%%.*}"'\]' || fail "wrong SONAME"
if nm --dynamic --defined-only --format=posix "$shared" | grep -v '^ra_layer_'; then
    fail "symbols that do not begin with ra_layer_"
fi
for file in "${shared%/*}/libringattn.so" "$prefix/bin/ringattn"; do
    if readelf -d "$file" | grep -iE 'NEEDED.*(blas|blis|mkl)'; then fail "$file needs a BLAS"; fi
done

echo "CMake"
"$cmake" -S "$here/consumer_layer" -B "$work/build" -G "$generator" -DCMAKE_PREFIX_PATH="$prefix" \
    -DWANTED_VERSION="$version" -DCMAKE_C_COMPILER="$cc" -DPROGRAM="$program" >"$work/log" || fail "$(cat "$work/log")"
"$cmake" --build "$work/build" >"$work/log" || fail "$(cat "$work/log")"
runs "$work/build/layer"

echo "pkg-config"
export PKG_CONFIG_PATH=${shared%/*}/pkgconfig
[[ $(pkg-config --modversion ringattn_multihead) == "$version" ]] || fail "pkg-config does not say $version"
read -ra flags < <(pkg-config --cflags --libs ringattn_multihead)
"$cc" "$program" -o "$work/layer" "${flags[@]}" -Wl,-rpath,"${shared%/*}"
runs "$work/layer"
