#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# attend over 1 to 5 processes: the oracle agrees, broadcast has the bits of a run in one piece, every rank reports.
# shellcheck source=tests/mpi/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# held WHAT: the largest process held no more than the largest has planned.
held() {
    local planned peak
    planned=$(sed -nE '/"memory"/,/}/s/.*"planned_peak_bytes": ([0-9]+),/\1/p' s.json)
    peak=$(sed -nE '/"memory"/,/}/s/.*"peak_bytes": ([0-9]+),/\1/p' s.json)
    ((0 < peak && peak <= planned)) || fail "$1: held $peak bytes, planned $planned"
}

# with PROCESSES OPTION...: a run, which must succeed.
with() {
    over "$1" attend "${qkv[@]}" --output o.npy --lse l.npy --stats s.json --transport mpi "${@:2}" ||
        fail "$*: exit $?"
    (($(grep -c '"rank": ' s.json) == $1)) || fail "$*: not as many ranks in the statistics"
    grep -q "\"ring_size\": $1\$" s.json || fail "$*: another ring size in the statistics"
    held "$*"
}

right() {
    quietly check "${qkv[@]}" --output o.npy --lse l.npy "$@"
    compgen -G '*.partial' >/dev/null && fail "left behind: $(ls)"
    rm o.npy l.npy s.json
}

for first in 1 2; do
    if ((first == 1)); then tensors 500,2,16; else tensors 2,300,4,8 --dtype float16; fi
    quietly attend "${qkv[@]}" --output whole.npy --lse whole_l.npy --pattern causal
    for ((processes = first; processes <= 5; processes += 2)); do
        with $processes --pattern causal --strategy broadcast
        if ! cmp whole.npy o.npy || ! cmp whole_l.npy l.npy; then fail "$processes processes: other bits"; fi
        right --pattern causal
        with $processes --pattern causal --strategy ring --order zigzag
        right --pattern causal
    done
done
with 3 --ring 3 --pattern window:50,3 --strategy allgather --order striped
right --pattern window:50,3

# A .safetensors file is made by the first process and written by all.
quietly attend "${qkv[@]}" --output whole.safetensors --output-dtype bf16 --pattern causal
over 3 attend "${qkv[@]}" --output o.safetensors --lse l.safetensors --output-dtype bf16 --pattern causal \
    --transport mpi --strategy broadcast || fail "into .safetensors: exit $?"
cmp whole.safetensors o.safetensors || fail "into .safetensors: other bits"
quietly check "${qkv[@]}" --output o.safetensors --lse l.safetensors --pattern causal
compgen -G '*.partial' >/dev/null && fail "left behind: $(ls)"

# Made-up inputs and an output that is kept nowhere: its checksum is that of a run in one piece, and no file is needed.
rm ./*.npy ./*.safetensors
made=(attend --query gen:1 --key gen:2 --value gen:3 --shape "2,300,4,16" --kv-shape "2,400,2,16" --pattern causal
    --output null --lse null)
quietly "${made[@]}"
cp out whole
for processes in 1 2 4; do
    over $processes "${made[@]}" --transport mpi --strategy broadcast || fail "$processes processes: exit $?"
    diff whole out || fail "$processes processes: another checksum, or other errors"
    compgen -G '*.npy*' >/dev/null && fail "has written: $(ls)"
done
over 3 "${made[@]}" --transport mpi --order zigzag --stats s.json || fail "over a ring: exit $?"
grep -q '"rows_checked": 64' s.json || fail 'no rows in the statistics'
