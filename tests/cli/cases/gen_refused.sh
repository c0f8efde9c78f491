# SPDX-License-Identifier: Apache-2.0
# Made-up inputs that cannot be: what was given, what to do, exit 2, nothing written.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
made=(--query gen:1 --key gen:2 --value gen:3)
attempt() { run attend "$@" --output o.npy; }
attempt "${made[@]}"
attempt "${made[@]}" --kv-shape 1,8,2,4
for seed in gen: gen:abc gen:-1 gen:1.5 gen:99999999999999999999; do
    attempt --query $seed --key gen:2 --value gen:3 --shape 1,8,2,4
done
attempt "${made[@]}" --shape 8,8
attempt "${made[@]}" --shape 1,1,8,2,4
attempt "${made[@]}" --shape 1,8,2,x
attempt "${made[@]}" --shape 1,8,2,4 --kv-shape 8
attempt "${made[@]}" --shape 1,8,2,4 --kv-shape 2,8,2,4
attempt "${made[@]}" --shape 1,8,2,4 --kv-shape 8,2,5
attempt "${made[@]}" --shape 1,8,3,4 --kv-shape 1,8,2,4
attempt "${made[@]}" --shape 4G,4G,2,4
attempt "${made[@]}" --shape 1,8,2,4 --dtype bfloat16 # the output too, which .npy cannot hold
attempt "${made[@]}" --shape 1,8,2,4 --dtype float64
attempt "${made[@]}" --shape 1,8,2,4 --distribution cauchy

# Options that no input takes.
tensors 8,2,4 8,2,4 8,2,4
attempt "${qkv[@]}" --shape 1,8,2,4
attempt "${qkv[@]}" --kv-shape 1,8,2,4
attempt "${qkv[@]}" --distribution uniform
attempt "${qkv[@]}" --dtype float32
attempt --query gen:1 --key k.npy --value v.npy --shape 8,2,4 --kv-shape 8,2,4
attempt --query q.npy --key gen:2 --value v.npy --shape 8,2,4 --kv-shape 8,2,4
attempt --query gen:1 --key k.npy --value v.npy --shape 9,2,5
run check "${made[@]}" --output q.npy
run check "${made[@]}" --shape 9,2,4 --output q.npy
run bench kernel --input q.npy
run bench ring --input gen:x
ls
