# SPDX-License-Identifier: Apache-2.0
# What `check` and `--output null` make of results: right ones pass whatever the size of the scores, wrong ones do not.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
tensors 200,2,64 200,2,64 200,2,64
figures='s/error [0-9.a-z+-]*/error N/; s/tolerance [0-9.e+-]*/tolerance N/; s/ at batch .*//'
files=(--output o.npy --lse l.npy)

# Large scores: their rounding is no mistake; another scale, another pattern are.
for scale in -1 10 100; do
    other=$((scale + scale / 10))
    quietly attend "${qkv[@]}" "${files[@]}" --scale $scale --kernel generic
    run check "${qkv[@]}" "${files[@]}" --scale $scale --rows 400 | sed -E "$figures"
    run check "${qkv[@]}" "${files[@]}" --scale $other.1 --rows 400 | sed -E "$figures"
    run check "${qkv[@]}" "${files[@]}" --scale $scale --rows 400 --pattern window:150 | sed -E "$figures"
    run attend "${qkv[@]}" --output null --lse null --scale $scale --rows 400 --kernel generic |
        sed -E "$figures; s/checksum [0-9a-f]+/checksum N/"
    run check "${qkv[@]}" --output o.npy --scale $scale --rows 400 --tolerance 1e-9 | sed -E "$figures"
done

# A log-sum-exp that is wrong beside an output that is right, and the other way round.
quietly attend "${qkv[@]}" "${files[@]}"
cp o.npy o_right.npy
cp l.npy l_right.npy
quietly generate --shape 1,2,200 --seed 9 --output l.npy
run check "${qkv[@]}" "${files[@]}" | sed -E "$figures"
cp l_right.npy l.npy
quietly generate --shape 200,2,64 --seed 9 --output o.npy
run check "${qkv[@]}" "${files[@]}" | sed -E "$figures"

# An output, and then a log-sum-exp, of NaN: every byte of the elements is 0xff.
for name in o l; do
    cp o_right.npy o.npy
    cp l_right.npy l.npy
    size=$(stat -c %s $name.npy)
    head -c $((size - 128)) /dev/zero | tr '\0' '\377' | dd of=$name.npy bs=128 seek=1 conv=notrunc status=none
    run check "${qkv[@]}" "${files[@]}" | sed -E "$figures"
done
