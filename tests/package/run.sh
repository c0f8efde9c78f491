#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh CMAKE GENERATOR BUILD CC CXX VERSION: installs BUILD, moves the prefix, and builds programs against it in every
# way that the package offers.
set -euo pipefail

cmake=$1 generator=$2 build=$3 cc=$4 cxx=$5 version=$6
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "package: $*" >&2
    exit 1
}

"$cmake" --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/prefix" # a path that was baked in now points nowhere
prefix=$work/prefix
shared=$(find "$prefix" -name libringattn.so)
archive=$(find "$prefix" -name libringattn.a)
[[ -n $shared && -n $archive ]] || fail "a library is missing"

echo "the command"
[[ $("$prefix/bin/ringattn" --version) == *"$version"* ]] || fail "ringattn --version does not say $version"

for file in man/man1/ringattn.1 man/man1/ringattn-verify.1 bash-completion/completions/ringattn zsh/*/_ringattn; do
    compgen -G "$prefix/share/$file" >/dev/null || fail "share/$file is missing"
done

echo "SONAME and exported symbols"
readelf -d "$shared" | grep -q 'SONAME.*\[libringattn\.so\.'"${version%%.*}"'\]' || fail "wrong SONAME"
if nm --dynamic --defined-only --format=posix "$shared" | grep -v '^ra_'; then
    fail "symbols that do not begin with ra_"
fi

echo "CMake: shared, static, C++"
"$cmake" -S "$here/consumer" -B "$work/build" -G "$generator" -DCMAKE_PREFIX_PATH="$prefix" \
    -DWANTED_VERSION="$version" -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" >"$work/log" ||
    fail "$(cat "$work/log")"
"$cmake" --build "$work/build" >"$work/log" || fail "$(cat "$work/log")"
for program in shared static cpp; do
    [[ $("$work/build/$program") == "$version" ]] || fail "the $program consumer failed"
done

echo "pkg-config: shared, static"
export PKG_CONFIG_PATH=${shared%/*}/pkgconfig
[[ $(pkg-config --modversion ringattn) == "$version" ]] || fail "pkg-config does not say $version"
read -ra flags < <(pkg-config --cflags --libs ringattn)
"$cc" "$here/consumer/consumer.c" -o "$work/shared" "${flags[@]}" -Wl,-rpath,"${shared%/*}"
[[ $("$work/shared") == "$version" ]] || fail "the shared pkg-config consumer failed"
read -ra flags < <(pkg-config --static --cflags --libs ringattn)
rm "$shared"* # now -lringattn can only mean the archive
"$cc" "$here/consumer/consumer.c" -o "$work/static" "${flags[@]}"
for program in "$work/static" "$work/build/static" "$work/build/cpp"; do
    [[ $("$program") == "$version" ]] || fail "$program failed without the shared library"
done
