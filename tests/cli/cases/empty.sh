# SPDX-License-Identifier: Apache-2.0
# Sizes of 0: nothing is computed, outputs have the shape that they should have, exit 0.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
dictionary() { head -c 128 "$1" | tail -c 118 | sed 's/ *$//'; }
both() {
    run attend "${qkv[@]}" --output o.npy --lse l.npy "$@"
    run check "${qkv[@]}" --output o.npy --lse l.npy | sed 's/: largest error.*:/:/'
    dictionary o.npy
    dictionary l.npy
    rm -f o.npy l.npy
}
# No queries, no keys, neither, no batch.
tensors 1,0,4,8 1,100,4,8 1,100,4,8
both
both --ring 3 --transport threads
both --ring 2 --strategy broadcast --memory 64MiB
tensors 1,100,4,8 1,0,2,8 1,0,2,5
both --pattern causal
both --ring 3 --order striped
both --ring 3 --transport threads --strategy allgather
both --ring 2 --checkpoint c --checkpoint-every 0
tensors 1,0,4,8 1,0,4,8 1,0,4,8
both --preset longnet
both --ring 4 --pattern blocks:16:random=2
tensors 0,100,4,8 0,100,4,8 0,100,4,8
both
both --ring 3 --strategy broadcast

# Made up, and kept nowhere.
run generate --shape 1,0,4,8 --seed 1 --output e.npy
dictionary e.npy
run attend --query gen:1 --key gen:2 --value gen:3 --shape 1,0,4,8 --output null
run attend --query gen:1 --key gen:2 --value gen:3 --shape 1,3,1,4 --kv-shape 1,0,1,4 --output null --lse null |
    sed 's/: largest error.*:/:/'

# Through .safetensors, and back.
run attend --query e.npy --key e.npy --value e.npy --output s.safetensors
run attend --query s.safetensors --key e.npy --value e.npy --output o.npy
dictionary o.npy

# Heads and dims there must be.
npy heads.npy '<f4' False '(1, 8, 0, 4)' 0
run attend --query heads.npy --key heads.npy --value heads.npy --output o.npy

# Nothing to do can be planned.
run plan --kernel generic --threads 1 --length 0 --heads 2 --dim 8 --ring 2 | head -2
run plan --kernel generic --threads 1 --length 64 --kv-length 0 --heads 2 --dim 8 --ring 2 | head -2
