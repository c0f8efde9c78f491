# SPDX-License-Identifier: Apache-2.0
# Attention with scores, from and to files: in one piece, in parts and over ranks, and what check says of it.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
tensors 2,90,4,16 2,130,2,16 2,130,2,24
quietly generate --shape 4 --seed 4 --output slopes.npy --distribution uniform
quietly generate --shape 4 --seed 5 --output sinks.npy
quietly generate --shape 1,41 --seed 6 --output table.npy
quietly generate --shape 2,1,90,130 --seed 7 --output bias.npy
quietly generate --shape 1,4,1,130 --seed 8 --dtype bfloat16 --output 'bias.safetensors#all'

hide_figures() { sed -E 's/(error|tolerance) [0-9.e+-]+/\1 N/g'; }

# attempt SCORES OPTION...: attend and check agree.
attempt() {
    run attend "${qkv[@]}" --output o.npy --lse l.npy --pattern causal --scores "$@"
    run check "${qkv[@]}" --output o.npy --lse l.npy --pattern causal --scores "$1" | hide_figures
}
for scores in softcap:20 alibi alibi:@slopes.npy relative:@table.npy bias:@bias.npy bias:@bias.safetensors#all \
    sinks:@sinks.npy dropout:0.3:seed=5 \
    relative:@table.npy+softcap:3+bias:@bias.npy+alibi+sinks:@sinks.npy+dropout:0.1; do
    attempt "$scores"
done

# Broadcast gives the bits of a run in one piece; the others agree within rounding.
all=relative:@table.npy+softcap:3+bias:@bias.npy+alibi+sinks:@sinks.npy+dropout:0.1
quietly attend "${qkv[@]}" --output whole.npy --lse whole_lse.npy --pattern causal --scores "$all"
for ring in '--ring 3 --strategy broadcast --order striped' '--ring 2 --strategy broadcast --transport threads'; do
    # shellcheck disable=SC2086 # words
    attempt "$all" $ring
    cmp o.npy whole.npy && cmp l.npy whole_lse.npy && echo the same bits
done
attempt "$all" --ring 4 --order zigzag
places=(--query-position 7 --key-position 3)
run attend "${qkv[@]}" --output o.npy --scores "$all" "${places[@]}" --ring 3 --strategy allgather --transport threads
run check "${qkv[@]}" --output o.npy --scores "$all" "${places[@]}" | hide_figures

# A bias from a file in several dilated branches, whose members have the same numbers and are other rows.
branches=(--scores bias:@bias.npy --pattern 'dilated:118/5,40/2,23/7' --query-position 0)
run attend "${qkv[@]}" --output o.npy "${branches[@]}"
run check "${qkv[@]}" --output o.npy "${branches[@]}" --rows 720 | hide_figures

# A bias that stands for a mask: -inf, and the lowest float there is, over a part of a row and over a whole one.
cp bias.npy masked.npy
printf '\0\0\200\377%.0s' {1..40} | dd of=masked.npy bs=4 seek=$((32 + 3 * 130)) conv=notrunc status=none
printf '\377\377\177\377%.0s' {1..40} | dd of=masked.npy bs=4 seek=$((32 + 60 * 130)) conv=notrunc status=none
printf '\377\377\177\377%.0s' {1..130} | dd of=masked.npy bs=4 seek=$((32 + 62 * 130)) conv=notrunc status=none
attempt bias:@masked.npy
quietly generate --shape 2,90,4,24 --seed 9 --output do.npy
gradients=(--output-gradient do.npy --query-gradient dq.npy --key-gradient dk.npy --value-gradient dv.npy)
run gradient "${qkv[@]}" "${gradients[@]}" --scores bias:@masked.npy+softcap:9
run check "${qkv[@]}" "${gradients[@]}" --scores bias:@masked.npy+softcap:9 --rows 400 | hide_figures
run gradient "${qkv[@]}" "${gradients[@]}" --scores bias:@masked.npy
run check "${qkv[@]}" "${gradients[@]}" --scores bias:@masked.npy --rows 400 | hide_figures

# Without them, or with others, the result is another one.
run check "${qkv[@]}" --output whole.npy --pattern causal | hide_figures
run check "${qkv[@]}" --output whole.npy --pattern causal --scores alibi | hide_figures
run attend "${qkv[@]}" --output o.npy --pattern causal --scores alibi+softcap:9 --stats - | grep '"scores"'
run plan --length 4096 --heads 4 --dim 16 --pattern causal --scores alibi+softcap:9 --ring 2 | head -n 2 | cut -d ';' -f 2
run advise --length 512 --heads 2 --dim 16 --memory 64M --scores alibi+softcap:9 | grep -o -e '--scores [^ ]*$'
# Arrays are of the problem; a calibration is shorter, and has its own.
run advise --length 90 --kv-length 130 --heads 4 --dim 16 --batch 2 --memory 64M --scores "relative:@table.npy+bias:@bias.npy" | grep -o -e '--scores [^ ]*$'
