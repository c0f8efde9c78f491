# SPDX-License-Identifier: Apache-2.0
# Gradients with scores, and those of their arrays in one file: in one piece and over ranks.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
tensors 2,90,4,16 2,130,2,16 2,130,2,24
quietly generate --shape 4 --seed 4 --output slopes.npy --distribution uniform
quietly generate --shape 4 --seed 5 --output sinks.npy
quietly generate --shape 1,41 --seed 6 --output table.npy
quietly generate --shape 2,1,1,130 --seed 7 --output row.npy
quietly generate --shape 2,1,90,130 --seed 8 --output bias.npy
quietly generate --shape 2,90,4,24 --seed 9 --output do.npy
given=("${qkv[@]}" --output-gradient do.npy --query-gradient dq.npy --key-gradient dk.npy --value-gradient dv.npy)
hide_figures() { sed -E 's/(error|tolerance) [0-9.e+-]+/\1 N/g'; }

# header FILE: what a .safetensors file says of its tensors.
header() {
    head -c 1000 "$1" | tr -d '\0' | grep -a -o '{.*}}'
    stat -c '%s bytes' "$1"
}
all=relative:@table.npy+softcap:3+bias:@row.npy+alibi:@slopes.npy+sinks:@sinks.npy+dropout:0.1
run gradient "${given[@]}" --pattern causal --scores "$all" --scores-gradient ds.safetensors
run check "${given[@]}" --pattern causal --scores "$all" | hide_figures
header ds.safetensors
cp ds.safetensors whole.safetensors
run gradient "${given[@]}" --pattern causal --scores "$all" --scores-gradient ds.safetensors --ring 3 \
    --strategy broadcast --order striped
cmp ds.safetensors whole.safetensors && echo the same bits
run gradient "${given[@]}" --pattern causal --scores "$all" --scores-gradient ds.safetensors --ring 2 --transport threads
run check "${given[@]}" --pattern causal --scores "$all" | hide_figures
run gradient "${given[@]}" --scores bias:@bias.npy+alibi --scores-gradient ds.safetensors
header ds.safetensors
run gradient "${given[@]}" --scores bias:@bias.npy --scores-gradient ds.safetensors --ring 2 --transport threads
header ds.safetensors

# Alone, without a gradient by queries, keys or values.
alone=("${qkv[@]}" --output-gradient do.npy --pattern causal --scores "$all" --scores-gradient alone.safetensors)
run gradient "${alone[@]}"
cmp alone.safetensors whole.safetensors && echo the same bits
run gradient "${alone[@]}" --ring 3 --strategy broadcast --order zigzag
cmp alone.safetensors whole.safetensors && echo the same bits
run gradient "${alone[@]}" --ring 2 --transport threads
run gradient "${alone[@]}" --rows 5
rm alone.safetensors
for scores in softcap:20 alibi relative:@table.npy bias:@bias.npy sinks:@sinks.npy dropout:0.4; do
    run gradient "${given[@]}" --pattern causal --scores "$scores"
    run check "${given[@]}" --pattern causal --scores "$scores" | hide_figures
done

# What is refused leaves everything as it was.
rm -f d[qkvs].*
run gradient "${given[@]}" --scores softcap:3 --scores-gradient ds.safetensors
run gradient "${given[@]}" --scores-gradient ds.safetensors
run gradient "${given[@]}" --scores alibi --scores-gradient ds.npy
run gradient "${given[@]}" --scores alibi --scores-gradient ds.safetensors#alibi
run gradient "${given[@]}" --scores alibi:@none.npy --scores-gradient ds.safetensors
run gradient "${given[@]}" --scores sinks:@table.npy --scores-gradient ds.safetensors
run gradient "${given[@]}" --scores alibi:@slopes.npy --scores-gradient slopes.npy
run gradient "${given[@]}" --scores alibi --scores-gradient dq.npy
run attend "${qkv[@]}" --output o.npy --scores alibi --scores-gradient ds.safetensors
ls
