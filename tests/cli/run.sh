#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh RINGATTN CASE: run cases/CASE.sh in an empty directory and compare what it prints with golden/CASE.txt.
set -u
binary=$(realpath "$1")
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
golden=$here/golden/$2.txt
export LC_ALL=C.UTF-8
unset RA_KERNEL COLUMNS

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
mkdir case # the case's own directory; what it prints is kept beside it

# run ARGS...: the command, what it printed (standard error marked), and its exit code.
run() {
    local code
    printf '$ ringattn %s\n' "$*"
    "$binary" "$@" >../out 2>../err
    code=$?
    cat ../out
    sed -E '/^ringattn [a-z]+: +[0-9]+%, /d; s/^/! /' ../err # how far it was says how fast the machine is
    if ((code)); then printf 'exit %d\n' $code; fi
}

# quietly ARGS...: the command as a step that must succeed.
quietly() {
    "$binary" "$@" >../out 2>../err || {
        printf 'ringattn %s: exit %d\n' "$*" $?
        cat ../err
    }
}

# npy FILE DESCR FORTRAN SHAPE BYTES: a header, and so many bytes of zeros.
npy() {
    printf "\\x93NUMPY\\x01\\x00\\x76\\x00%-117s\\n" "{'descr': '$2', 'fortran_order': $3, 'shape': $4, }" >"$1"
    truncate -s $((128 + $5)) "$1"
}

# safetensors FILE HEADER BYTES: a header, and so many bytes of zeros.
safetensors() {
    local length=${#2}
    printf "\\x$(printf %x $((length % 256)))\\x$(printf %x $((length / 256)))\\0\\0\\0\\0\\0\\0%s" "$2" >"$1"
    truncate -s $((8 + length + $3)) "$1"
}

# tensors SHAPE_Q SHAPE_K SHAPE_V [OPTION...]: q.npy, k.npy and v.npy.
tensors() {
    quietly generate --shape "$1" --seed 1 --output q.npy "${@:4}"
    quietly generate --shape "$2" --seed 2 --output k.npy "${@:4}"
    quietly generate --shape "$3" --seed 3 --output v.npy "${@:4}"
}

# shellcheck disable=SC2034 # the cases use it
qkv=(--query q.npy --key k.npy --value v.npy)

# skip REASON: this machine or build cannot run the case.
skip() {
    printf 'skipped: %s\n' "$1" >&2
    exit 77
}

instrumented() { grep -q -e __asan_init -e __tsan_init "$binary"; }

(
    cd case || exit 1
    # shellcheck source=/dev/null
    source "$here/cases/$2.sh"
) >printed
code=$?
if ((code)); then exit $code; fi
if [[ ${RINGATTN_GOLDEN:-} == write ]]; then cp printed "$golden"; fi
diff -u "$golden" printed
