#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh DOCUMENT BUILD [MPIRUN...]: runs every command of the document's ```console blocks, in order and in one shell,
# and compares what it prints on standard output. Figures are masked; a line `...` stands for any lines. The first ```c
# block is program.c. Python blocks are run by tests/python/test_readme.py.
set -uo pipefail
export LC_ALL=C.UTF-8
unset RA_KERNEL COLUMNS
document=$(realpath "$1")
build=$(realpath "$2")
mpirun=("${@:3}")
if ((${#mpirun[@]})); then mpirun[0]=$(command -v "${mpirun[0]}"); fi
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
source_tree=$(realpath "$here/../..")

# excluded COMMAND: says why a command cannot be run here; fails for all others.
excluded() {
    case $1 in
    './dev test') echo 'it runs this test' ;;
    './dev build') echo 'the build is what is tested' ;;
    'pip install .') echo 'tests/python installs the package' ;;
    './dev demo')
        # The demo runs the command of ./dev build, and draws with gnuplot.
        [[ $build == "$source_tree/build" ]] || { echo 'another build' && return 0; }
        command -v gnuplot >/dev/null && return 1
        echo 'no gnuplot'
        ;;
    mpirun*) ((${#mpirun[@]} == 0)) && echo 'no MPI' ;;
    *) return 1 ;;
    esac
}

# What is different from run to run and from machine to machine.
mask() {
    sed -E -e 's/checksum [0-9a-f]{16}/checksum #/' -e 's/[0-9][0-9.]*(e[-+]?[0-9]+)? ?([KMGT]i?B\b|bytes)/# bytes/g' \
        -e 's/[0-9][0-9.,]*(e[-+]?[0-9]+)?/#/g' -e 's/\b(generic|avx#)( |"|\))/KERNEL\2/g' -e 's/Intel.*, gcc/PROCESSOR, gcc/' \
        -e 's/AMD.*, gcc/PROCESSOR, gcc/' -e 's/[ \t]+/ /g' -e 's/ $//'
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/blocks" "$work/home"
awk -v folder="$work/blocks" -f "$here/blocks.awk" "$document" || exit 1
ln -s "$build/ringattn" "$work/bin/ringattn"
if ((${#mpirun[@]})); then
    printf '#!/bin/sh\nexec %s"$@"\n' "$(printf '%q ' "${mpirun[@]}")" >"$work/bin/mpirun"
    chmod +x "$work/bin/mpirun"
fi
export PATH=$work/bin:$PATH HOME=$work/home
cd "$work/home" || exit 1
ln -s "$build" build
ln -s "$source_tree/dev" dev
if [[ -e $work/blocks/program.c ]]; then cp "$work/blocks/program.c" .; fi

count=0 failed=0
for file in "$work"/blocks/*.command; do
    command=$(<"$file")
    expected=${file%.command}.expected
    if reason=$(excluded "$command"); then
        printf 'not run: %s (%s)\n' "$command" "$reason"
        # Its output at least names checks that exist.
        while read -r name; do
            if [[ ! -e $source_tree/tools/lint/$name.sh ]]; then
                failed=$((failed + 1))
                printf '%s: there is no tools/lint/%s.sh\n' "${document##*/}" "$name"
            fi
        done < <(sed -nE 's/^lint ([a-z]+) .*/\1/p' "$expected")
        continue
    fi
    if [[ $command == './dev demo' ]]; then command=$source_tree/tools/demo.sh; fi
    count=$((count + 1))
    eval "$command" >"$work/printed" 2>"$work/errors"
    code=$?
    mask <"$expected" >"$work/expected"
    mask <"$work/printed" >"$work/masked"
    if ((code)) || ! awk -f "$here/match.awk" "$work/expected" "$work/masked"; then
        failed=$((failed + 1))
        printf '%s: $ %s\nexit %d; expected:\n' "${document##*/}" "$command" $code
        sed 's/^/< /' "$expected"
        printf 'printed:\n'
        sed 's/^/> /' "$work/printed"
        sed 's/^/! /' "$work/errors"
    fi
done
printf '%d commands run, %d with another output than printed in %s\n' $count $failed "${document##*/}"
((count > 0 && failed == 0))
