#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# resident.sh RINGATTN: what a process holds, by the operating system, is what was planned for it and 24 MiB at most: its
# plan, marks, schedules and documents are in the promise.
set -euo pipefail
if grep -q -e __asan_init -e __tsan_init "$1"; then
    echo 'skipped: a sanitizer holds memory of its own'
    exit 77
fi
binary=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
status=0

attention=(attend --output null)
gradients=(gradient --output-gradient gen:4 --query-gradient dq.npy --key-gradient dk.npy --value-gradient dv.npy)
command=("${attention[@]}")

# holds NAME ARGS...: run the command, and compare the largest resident size with the plan of the rank that has most.
holds() {
    local name=$1 planned resident
    shift
    "$binary" "${command[@]}" --query gen:1 --key gen:2 --value gen:3 --distribution uniform --threads 1 --stats stats.json "$@" >/dev/null 2>&1
    planned=$(sed -nE 's/^ *"planned_peak_bytes": ([0-9]+),?$/\1/p' stats.json | sort -n | tail -1)
    resident=$(sed -nE 's/^ *"rss_peak_bytes": ([0-9]+),?$/\1/p' stats.json | sort -n | tail -1)
    rm -f stats.json
    printf '%s: %d KiB planned, %d KiB resident\n' "$name" $((planned >> 10)) $((resident >> 10))
    if ((resident > planned + (24 << 20))); then
        echo "$name: more than 24 MiB above the plan" >&2
        status=1
    fi
}

# documents COUNT: int64 ones, as documents:@FILE.npy wants them.
documents() {
    printf "\\x93NUMPY\\x01\\x00\\x76\\x00%-117s\\n" \
        "{'descr': '<i8', 'fortran_order': False, 'shape': ($1,), }" >documents.npy
    printf '\1\0\0\0\0\0\0\0' >ones
    while (($(stat -c %s ones) < 8 * $1)); do
        cat ones ones >twice
        mv twice ones
    done
    head -c $((8 * $1)) ones >>documents.npy
    rm ones
}

holds 'random blocks over 2048' --shape 1,512K,1,8 --pattern blocks:64:random=3 --ring 2048 --memory 8MiB
holds 'many heads over 100' --shape 1,64K,512,1 --pattern dilated:64/64,1024/32 --ring 100
holds 'random blocks over 512' --shape 1,256K,1,8 --pattern blocks:64:random=3 --ring 512
documents $((4 << 20))
holds '4M documents over 64' --shape 1,4M,1,1 --pattern documents:@documents.npy --ring 64
holds 'striped windows over 64' --shape 1,128K,2,8 --pattern window:300 --ring 64 --order striped
holds 'broadcast over 33' --shape 1,64K,4,8 --pattern causal --ring 33 --strategy broadcast --order zigzag
holds 'a density over 16' --shape 1,64K,8,8 --pattern blocks:64:density=0.05 --ring 16

# Gradients: sums that stay in the files of gradients, and those that are made in passes of their own.
command=("${gradients[@]}")
for strategy in ring allgather broadcast; do
    holds "gradients over 4, $strategy" --shape 1,4K,8,64 --pattern causal --ring 4 --strategy $strategy --order zigzag
done
holds 'gradients of few keys over 4' --shape 1,4K,8,64 --kv-shape 1,4K,2,64 --ring 4
holds 'float16 gradients over 4' --shape 1,4K,8,64 --pattern causal --ring 4 --dtype float16
holds 'gradients of random blocks over 512' --shape 1,128K,1,8 --pattern blocks:64:random=3 --ring 512
holds 'gradients of many heads over 100' --shape 1,16K,64,1 --pattern dilated:64/64,1024/32 --ring 100
holds 'gradients of striped windows over 64' --shape 1,64K,2,8 --pattern window:300 --ring 64 --order striped

# Others, drawn from a seed.
RANDOM=${RINGATTN_SEED:-1}
patterns=(full causal 'window:200,9' window:3000 'dilated:128/1,512/4' dilated:512/8:mode=union
    blocks:64:local=1:random=2 blocks:16:density=0.02)
strategies=(ring ring allgather broadcast) orders=(contiguous zigzag striped)
for i in 1 2 3 4 5 6 7 8; do
    command=("${attention[@]}")
    if ((i % 4 == 0)); then command=("${gradients[@]}"); fi
    options=(--shape "$((1 + RANDOM % 2)),$((4000 + RANDOM)),$((1 + RANDOM % 4)),$((1 + RANDOM % 40))"
        --pattern "${patterns[RANDOM % ${#patterns[@]}]}" --ring $((2 + RANDOM % 90))
        --strategy "${strategies[RANDOM % 4]}" --order "${orders[RANDOM % 3]}")
    holds "${command[0]} ${options[*]}" "${options[@]}"
done
exit $status
