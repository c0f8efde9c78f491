# SPDX-License-Identifier: Apache-2.0
# Gradients that cannot be: what was given, what was expected, exit 2; no file appears and the previous ones stay.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
tensors 2,8,4,4 2,9,2,4 2,9,2,6
quietly generate --shape 2,8,4,6 --seed 4 --output do.npy
quietly generate --shape 2,4,8 --seed 5 --output dl.npy
quietly attend "${qkv[@]}" --output o.npy --lse l.npy
echo previous | tee dq.npy dk.npy >dv.npy
given=("${qkv[@]}" --output-gradient do.npy)
results=(--query-gradient dq.npy --key-gradient dk.npy --value-gradient dv.npy)
attempt() {
    run gradient "$@"
    cat dq.npy dk.npy dv.npy | sort -u | grep -a -v previous
    compgen -G '*.partial'
}

# What is missing.
attempt "${qkv[@]}" "${results[@]}"
attempt "${given[@]}"
attempt "${given[@]}" --output o.npy "${results[@]}"
attempt "${given[@]}" --lse l.npy "${results[@]}"
attempt "${given[@]}" "${results[@]}" --output o.npy --lse nowhere.npy
run check "${given[@]}" --output o.npy --key-gradient dk.npy
run check "${given[@]}" --output o.npy
run check "${qkv[@]}" --lse-gradient dl.npy --output o.npy
run check "${qkv[@]}"
run check "${qkv[@]}" --key-gradient dk.npy

# The wrong shape or dtype.
attempt "${qkv[@]}" --output-gradient q.npy "${results[@]}"
attempt "${given[@]}" --lse-gradient do.npy "${results[@]}"
quietly generate --shape 2,8,4 --seed 5 --output turned.npy
attempt "${given[@]}" --lse-gradient turned.npy "${results[@]}"
attempt "${given[@]}" --output q.npy --lse l.npy "${results[@]}"
attempt "${given[@]}" --output o.npy --lse turned.npy "${results[@]}"
attempt "${given[@]}" "${results[@]}" --layout bhsd
npy double.npy '<f8' False '(2, 8, 4, 6)' 3072
attempt "${qkv[@]}" --output-gradient double.npy "${results[@]}"
npy half.npy '<f2' False '(2, 4, 8)' 128
attempt "${given[@]}" --lse-gradient half.npy "${results[@]}"
attempt "${given[@]}" --output o.npy --lse half.npy "${results[@]}"
npy two.npy '<f4' False '(8, 48)' 1536
attempt "${qkv[@]}" --output-gradient two.npy "${results[@]}"
attempt "${qkv[@]}" --output-gradient gen:x "${results[@]}"
attempt "${qkv[@]}" --output-gradient gen:4 --shape 2,8,4,6 "${results[@]}"
attempt "${given[@]}" --dtype float32 "${results[@]}"
quietly generate --shape 2,9,2,4 --seed 6 --output g.npy
run check "${given[@]}" --query-gradient g.npy
run check "${given[@]}" --key-gradient g.npy --value-gradient g.npy
run check "${given[@]}" --key-gradient double.npy

# Results that are not of this forward pass.
foreign() { attempt "${given[@]}" --output o.npy --lse l.npy "${results[@]}" "$@" 2>&1 | sed -E 's/-?[0-9]+\.[0-9e+-]+/N/g'; }
foreign --pattern causal
foreign --scale 2
quietly attend "${qkv[@]}" --output causal.npy --lse l2.npy --pattern causal
attempt "${given[@]}" --output o.npy --lse l2.npy "${results[@]}" | sed -E 's/-?[0-9]+\.[0-9e+-]+/N/g'
quietly generate --shape 2,8,4,6 --seed 7 --output noise.npy
attempt "${given[@]}" --output noise.npy --lse l.npy "${results[@]}" | sed -E 's/-?[0-9]+\.[0-9e+-]+/N/g'

# One file twice.
attempt "${given[@]}" --query-gradient q.npy
attempt "${given[@]}" --key-gradient do.npy
attempt "${given[@]}" --output o.npy --lse l.npy --value-gradient ./o.npy
attempt "${given[@]}" --output o.npy --lse l.npy --value-gradient l.npy
attempt "${given[@]}" --lse-gradient dl.npy --value-gradient dl.npy
attempt "${given[@]}" --key-gradient new.npy --value-gradient ../case/new.npy
attempt "${given[@]}" --key-gradient new.npy --stats new.npy
attempt "${given[@]}" --key-gradient new.npy --stats new.npy.partial

# Files that cannot be written, and options that are of other commands.
attempt "${given[@]}" --query-gradient dq.npy --key-gradient nowhere/dk.npy
attempt "${given[@]}" "${results[@]}" --stats nowhere/s.json
attempt "${given[@]}" "${results[@]}" --stats /dev/full
attempt "${given[@]}" "${results[@]}" --checkpoint c
attempt "${given[@]}" "${results[@]}" --checkpoint-every 5
attempt "${given[@]}" "${results[@]}" --output-dtype f32
attempt "${given[@]}" "${results[@]}" --pattern nonsense
attempt "${given[@]}" "${results[@]}" --timeout 5
ls
