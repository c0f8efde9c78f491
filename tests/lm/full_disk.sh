#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A full disk is said, training goes on, and what could not be written is written later. On a small disk in memory.
# shellcheck source=tests/lm/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
mkdir disk
small=(unshare --map-root-user --mount)
"${small[@]}" mount -t tmpfs -o size=2m none disk 2>/dev/null || exit 77
training=(train "${model[@]}" --context 400 --checkpoint disk/c --log disk/l.jsonl)

# shellcheck disable=SC2016 # for the shell inside
"${small[@]}" bash -c '
    mount -t tmpfs -o size=2m none disk
    head -c 4000000 /dev/zero >disk/filler 2>/dev/null
    "$@" >out 2>err &
    until grep -qs "not saved after step" err || ! kill -0 $!; do sleep 0.02; done
    rm disk/filler
    wait $! || exit
    cp disk/c disk/l.jsonl .' bash "$binary" "${training[@]}" --steps 80 || fail "exit $?: a full disk has ended the training"
grep -q "disk/c.: not saved after step .*: No space left on device; training goes on" err || fail "the checkpoint: not said"
grep -q "disk/l.jsonl.: cannot be written: No space left on device; training goes on" err || fail "the log: not said"
(($(wc -l <l.jsonl) == 81)) || fail "the log has $(wc -l <l.jsonl) lines"
must 1 eval --data text --checkpoint c

# Full to the end: the result is lost, and the exit code says so.
# shellcheck disable=SC2016 # for the shell inside
"${small[@]}" bash -c '
    mount -t tmpfs -o size=2m none disk
    head -c 4000000 /dev/zero >disk/filler 2>/dev/null
    "$@" >out 2>err' bash "$binary" "${training[@]}" --steps 3
code=$?
((code == 1)) || fail "full to the end: exit $code instead of 1"
grep -q "could not be saved" err || fail "full to the end: not said"
