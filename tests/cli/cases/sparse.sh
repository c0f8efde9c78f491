# SPDX-License-Identifier: Apache-2.0
# Dilated and block-sparse patterns: in one piece and over ranks, checked against the oracle, with what was computed.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
tensors 1,300,4,16 1,300,2,16 1,300,2,16
for pattern in dilated:64/1,128/2,256/4 dilated:100/3,70/7:mode=union+causal dilated:64/2,300/5:mode=grouped \
    dilated:64/1,128/4:mode=torchscale+window:40 blocks:16:local=1:global=1:random=2 \
    blocks:32:density=0.3+causal blocks:7:stride=3:seed=5+documents:100,200; do
    printf '%s\n' "$pattern"
    quietly attend "${qkv[@]}" --pattern "$pattern" --output o.npy --lse l.npy --stats s.json
    grep -E '"(pairs_visible|density)"' s.json | head -2
    run check "${qkv[@]}" --pattern "$pattern" --output o.npy --lse l.npy --rows 1200 | sed -n '2p'
    for order in contiguous zigzag striped; do
        quietly attend "${qkv[@]}" --pattern "$pattern" --output r.npy --lse m.npy --ring 3 --order $order
        quietly check "${qkv[@]}" --pattern "$pattern" --output r.npy --lse m.npy --rows 300
        quietly attend "${qkv[@]}" --pattern "$pattern" --output b.npy --ring 3 --order $order --strategy allgather
        cmp o.npy b.npy
    done
    for tiles in serpentine hilbert; do
        quietly attend "${qkv[@]}" --pattern "$pattern" --output t.npy --tiles $tiles --stats s.json
        grep tile_order s.json
        quietly check "${qkv[@]}" --pattern "$pattern" --output t.npy --rows 300
    done
done

# A mask in a file, of all heads and of each. It replaces the diagonal, which a setting can add.
npy two.npy '|b1' False '(3, 3)' 9
printf '\1' | dd of=two.npy bs=1 seek=$((128 + 1)) conv=notrunc status=none
run show --pattern blocks:4:mask=@two.npy --length 12 --heads 2
run show --pattern blocks:4:local=0:mask=@two.npy --length 12 --heads 2
npy three.npy '|b1' False '(2, 3, 3)' 18
printf '\1' | dd of=three.npy bs=1 seek=$((128 + 9 + 2)) conv=notrunc status=none
run show --pattern blocks:4:mask=@three.npy+causal --length 12 --heads 2
run show --pattern blocks:4:mask=@three.npy --length 12 --heads 2

# What is planned: segments inside a rank's rows send nothing, and what travels does not grow with the length.
run plan --kernel generic --threads 1 --length 4K --heads 4 --kv-heads 1 --dim 16 --pattern dilated:128/1,1024/4 --ring 4
run plan --kernel generic --threads 1 --length 4K --heads 4 --dim 16 --pattern dilated:128/1,2048/4 --ring 4
run plan --kernel generic --threads 1 --length 8K --heads 4 --dim 16 --pattern dilated:128/1,2048/4 --ring 8 | tail -4
run plan --kernel generic --threads 1 --length 64K --heads 4 --dim 16 --preset sparse90 --ring 2
