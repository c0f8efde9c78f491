# SPDX-License-Identifier: Apache-2.0
# Rings of simulated ranks and of threads: the result, what is refused, the plan, and budgets of memory.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
errors='s/error [0-9.e+-]*/error N/'

# held FILE: the process of a run held no more than was planned.
held() {
    local planned peak
    planned=$(sed -nE '/"memory"/,/}/s/.*"planned_peak_bytes": ([0-9]+),/\1/p' "$1")
    peak=$(sed -nE '/"memory"/,/}/s/.*"peak_bytes": ([0-9]+),/\1/p' "$1")
    ((0 < peak && peak <= planned)) || echo "held $peak bytes, planned $planned"
}

# Every strategy and order, on both transports, is as near to the oracle as a run in one piece; broadcast has its bits.
tensors 2,150,4,16 2,170,2,16 2,170,2,24
quietly attend "${qkv[@]}" --output whole.npy --lse whole_l.npy --pattern causal
for transport in sim threads; do
    for strategy in ring allgather broadcast; do
        for order in contiguous zigzag striped; do
            ring=(--ring 3 --transport "$transport" --strategy "$strategy" --order "$order")
            quietly attend "${qkv[@]}" --output o.npy --lse l.npy --stats s.json --pattern causal "${ring[@]}"
            held s.json
            quietly check "${qkv[@]}" --output o.npy --lse l.npy --pattern causal
            if [[ $strategy == broadcast ]]; then
                cmp whole.npy o.npy
                cmp whole_l.npy l.npy
            fi
            rm o.npy l.npy s.json
        done
    done
done
run attend "${qkv[@]}" --output o.npy --ring 7 --pattern window:9,3
run check "${qkv[@]}" --output o.npy --pattern window:9,3 | sed "$errors"
rm ./*.npy

# What is refused, with nothing written.
tensors 300,2,16 300,2,16 300,2,16
attempt() {
    run attend "${qkv[@]}" --output o.npy --lse l.npy --stats s.json "$@"
}
attempt --ring 0
attempt --ring -2
attempt --ring two
attempt --ring 65537
attempt --ring 2 --strategy star
attempt --ring 2 --transport pigeon
attempt --ring 2 --order random
attempt --ring 2 --timeout 0
attempt --ring 2 --timeout soon
attempt --strategy ring
attempt --transport threads
attempt --order zigzag
attempt --ring 2 --pattern documents:100,100
ls

# What a ring will do: figures that are the same everywhere.
plan() {
    run plan --kernel generic --threads 1 "$@"
}
plan --length 1000 --heads 2 --dim 16 --ring 4 --pattern causal
plan --length 1000 --kv-length 3000 --heads 4 --kv-heads 2 --dim 16 --value-dim 8 --batch 2 --ring 3 --order zigzag \
    --strategy allgather --dtype float16 --transport threads
plan --length 500 --heads 1 --dim 8 --ring 2 --strategy broadcast --in-memory --json
plan --length 500 --heads 1 --dim 8 --ring 0
plan --length 500 --heads 1

# A budget: both figures and the smallest ring that fits; without --ring that one is taken.
generic=(--kernel generic --threads 1)
attempt --ring 1 --memory 300K "${generic[@]}"
attempt --ring 2 --memory 10K "${generic[@]}"
attempt --memory 10K "${generic[@]}"
ls
plan --length 64K --heads 8 --dim 64 --memory 20MiB | head -6
plan --length 64K --heads 8 --dim 64 --ring 2 --memory 20MiB
tensors 4000,4,64 4000,4,64 4000,4,64
attempt --memory 2MiB "${generic[@]}"
run check "${qkv[@]}" --output o.npy --lse l.npy | sed "$errors"
grep -E '"(ring_size|planned_peak_bytes)"' s.json | head -2
ls
