# SPDX-License-Identifier: Apache-2.0
# Shapes that disagree, and results that do not belong to them.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
attempt() { run attend "${qkv[@]}" --output o.npy "$@"; }
tensors 2,8,2,4 3,8,2,4 3,8,2,4
attempt
tensors 8,2,4 8,2,5 8,2,5
attempt
tensors 8,2,4 8,2,4 9,2,4
attempt
tensors 8,2,4 8,2,4 8,1,4
attempt
tensors 8,3,4 8,2,4 8,2,4
attempt
tensors 8,2,4 8,4,4 8,4,4
attempt
tensors 8,1,1025 8,1,1025 8,1,4
attempt
tensors 8,1,4 8,1,4 8,1,1025
attempt
tensors 8,2,4 8,2,4 8,2,4
attempt --pattern documents:4,5
attempt --pattern diagonal
attempt --pattern causal+window:2,x
run check "${qkv[@]}" --output o.npy
quietly attend "${qkv[@]}" --output o.npy --lse l.npy
run check "${qkv[@]}" --output l.npy
run check "${qkv[@]}" --output o.npy --lse o.npy
tensors 7,2,4 7,2,4 7,2,4
run check "${qkv[@]}" --output o.npy
RA_KERNEL=mmx run attend "${qkv[@]}" --output p.npy
RA_KERNEL=mmx run info
ls
