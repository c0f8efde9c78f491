#!/usr/bin/env bash
# attend over 1 to 5 processes: the oracle agrees, broadcast has the bits of a run in one piece, every rank reports.
# shellcheck source=tests/mpi/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# with PROCESSES OPTION...: a run, which must succeed.
with() {
    over "$1" attend "${qkv[@]}" --output o.npy --lse l.npy --stats s.json --transport mpi "${@:2}" ||
        fail "$*: exit $?"
    (($(grep -c '"rank": ' s.json) == $1)) || fail "$*: not as many ranks in the statistics"
    grep -q "\"ring_size\": $1\$" s.json || fail "$*: another ring size in the statistics"
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
