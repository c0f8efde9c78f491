# SPDX-License-Identifier: Apache-2.0
# Keys and values of 8 bits in files: what is in them, runs in one piece and over ranks, what is refused.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
header() { LC_ALL=C grep -ao '{"scale[][{}":,A-Za-z0-9_]*}}' "$1"; }
st=(--query q.npy --key k8.safetensors --value v8.safetensors)
tensors 2,9,4,16 2,37,2,16 2,37,2,16
run quantize --input k.npy --output k8.safetensors
run quantize --input v.npy --output v8.safetensors
header k8.safetensors
run attend "${st[@]}" --output o.npy --pattern causal
run check "${st[@]}" --output o.npy --pattern causal --rows 30 | sed 's/error [0-9.e+-]*/error N/'
# Not what the floats give, but near to it.
run check "${qkv[@]}" --output o.npy --pattern causal --rows 30 --tolerance 0.05 | sed 's/error [0-9.e+-]*/error N/'
# Over ranks: the same bits by broadcast.
quietly attend "${st[@]}" --output ranks.npy --pattern causal --ring 3 --strategy broadcast
cmp o.npy ranks.npy
# One side of 8 bits, bfloat16 files, another layout.
quietly attend --query q.npy --key k8.safetensors --value v.npy --output one.npy --pattern causal
quietly generate --shape 4,5,16 --seed 2 --output k.safetensors --dtype bf16
quietly generate --shape 4,9,16 --seed 1 --output q3.npy
run quantize --input k.safetensors --output k3.safetensors
run attend --query q3.npy --key k3.safetensors --value k3.safetensors --layout bhsd --output o3.npy

# Refused: infinite elements, queries, gradients, other files.
npy inf.npy '<f4' False '(1, 2, 2, 3)' 48
printf '\x00\x00\x80\x7f' | dd of=inf.npy bs=1 seek=$((128 + 4 * 7)) conv=notrunc status=none
run quantize --input inf.npy --output x.safetensors
run quantize --input k.npy --output x.npy
run quantize --input k8.safetensors#data --output x.safetensors
run quantize --input missing.npy --output x.safetensors
run quantize --input k.npy --output x.safetensors#name
run attend --query k8.safetensors --key k8.safetensors --value v8.safetensors --output o.npy
run attend --query q.npy --key k8.safetensors#data --value v8.safetensors --output o.npy
quietly generate --shape 2,9,4,16 --seed 5 --output d.npy
quietly attend "${qkv[@]}" --output f.npy --lse l.npy
run gradient "${st[@]}" --output f.npy --lse l.npy --output-gradient d.npy --query-gradient dq.npy
# A scale that does not fit its data.
safetensors bad.safetensors '{"scale":{"dtype":"F32","shape":[2,37,2,2],"data_offsets":[0,1184]},"data":{"dtype":"I8","shape":[2,37,2,16],"data_offsets":[1184,3552]}}' 3552
run attend --query q.npy --key bad.safetensors --value v.npy --output o.npy

# Precision: what ran is said, and what cannot run here is refused.
for precision in auto exact; do
    quietly attend "${qkv[@]}" --output o.npy --stats s.json --precision $precision
    grep -o '"precision": "[a-z]*"' s.json
done
run attend "${qkv[@]}" --output o.npy --precision fast --kernel generic
run attend "${qkv[@]}" --output o.npy --precision half
ls
