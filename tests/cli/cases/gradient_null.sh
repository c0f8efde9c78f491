# SPDX-License-Identifier: Apache-2.0
# Gradients that are null: nothing is written, but the checksum is that of the gradient; and the statistics.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
made=(--query gen:1 --key gen:2 --value gen:3 --shape "2,150,4,16" --kv-shape "2,170,2,16" --pattern causal
    --output-gradient gen:4)
nulls=(--query-gradient null --key-gradient null --value-gradient null)
unseen() { sed -e 's/error [0-9.e+-]*/error N/' -e 's/tolerance [0-9.e+-]*/tolerance N/' -e 's/checksum [0-9a-f]\{16\} /checksum N /'; }

run gradient "${made[@]}" "${nulls[@]}" | unseen
run gradient "${made[@]}" --key-gradient null --lse-gradient gen:5 --rows 5 | unseen
run gradient "${made[@]}" --value-gradient null --query-gradient dq.npy --rows 0 | unseen
run gradient "${made[@]}" "${nulls[@]}" --rows 1000000 --dtype float16 | unseen
run gradient "${made[@]}" "${nulls[@]}" --dtype bfloat16 --tiles hilbert | unseen
run gradient "${made[@]}" "${nulls[@]}" --dtype bfloat16 --gradient-dtype f32 | unseen
ls

# One checksum for each way to the same bits.
checksums() { "$binary" gradient "$@" "${nulls[@]}" --rows 3 | grep checksum; }
one=$(checksums "${made[@]}")
[[ $(checksums "${made[@]}" --threads 1) == "$one" ]] || echo 'one thread: other checksums'
[[ $(checksums "${made[@]}" --scale 0.3) != "$one" ]] || echo 'another scale, the same checksums'
tensors 2,150,4,16 2,170,2,16 2,170,2,16
[[ $(checksums "${qkv[@]}" --pattern causal --output-gradient gen:4) == "$one" ]] || echo 'files: other checksums'

# In the statistics; where those are on standard output, nothing else is.
machine='s/("(compute|total|forward|gflops|tiles|pairs_worked|[a-z_]*_bytes|largest_error|tolerance)": )[0-9.e+-]+/\1N/; s/: "[0-9a-f]{16}"/: "N"/'
run gradient "${made[@]}" "${nulls[@]}" --stats - --rows 2 --threads 1 --kernel generic | sed -E "$machine"
quietly attend "${qkv[@]}" --pattern causal --output o.npy --lse l.npy
run gradient "${qkv[@]}" --output-gradient gen:4 --pattern causal --output o.npy --lse l.npy --key-gradient dk.npy --stats s.json
grep -e '"forward"' -e '"direction"' -e '"flops"' s.json

# Rows that are out of tolerance, and options that need rows.
run gradient "${made[@]}" "${nulls[@]}" --tolerance 0 --stats t.json | unseen | sed 's/batch .*y [0-9]*/batch N/'
run gradient "${made[@]}" --value-gradient dv.npy --rows 5
run gradient "${made[@]}" --query-gradient dq.npy --tolerance 1
ls
