# SPDX-License-Identifier: Apache-2.0
# Scores that are refused: the character, the values, and what was expected; exit 2, and nothing is written.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
tensors 2,5,4,8 2,7,2,8 2,7,2,8
for scores in '' softcap softcap: softcap:0 softcap:-3 softcap:inf softcap:nan softcap:1e3 softcap:1+softcap:2 \
    alibi: alibi:slopes.npy alibi:@ alibi:@none.npy alibi+alibi relative relative: bias sinks dropout dropout:1 \
    dropout:-.1 dropout:1.5 dropout:.1:seed dropout:.1:seed=x dropout:.1:seed=99999999999999999999 ALiBi alibi+ +alibi \
    alibi,softcap:3; do
    run attend "${qkv[@]}" --output o.npy --scores "$scores"
done

# Files of the wrong dtype, shape or length, and numbers that are not finite.
npy double.npy '<f8' False '(4,)' 32
npy three.npy '<f4' False '(3,)' 12
npy even.npy '<f4' False '(4, 6)' 96
npy heads.npy '<f4' False '(2, 5)' 40
npy short.npy '<f4' False '(4,)' 12
npy inf.npy '<f4' False '(4,)' 16
printf '\0\0\200\177' | dd of=inf.npy bs=1 seek=$((128 + 4)) conv=notrunc status=none
npy nan.npy '<f4' False '(4, 3)' 48
printf '\0\0\300\177' | dd of=nan.npy bs=1 seek=$((128 + 20)) conv=notrunc status=none
npy queries.npy '<f4' False '(1, 1, 4, 7)' 112
npy keys.npy '<f4' False '(1, 1, 5, 8)' 160
npy batch.npy '<f4' False '(3, 1, 1, 7)' 84
npy integers.npy '<i8' False '(1, 1, 1, 7)' 56
npy flat.npy '<f4' False '(5, 7)' 140
for scores in alibi:@double.npy softcap:3+alibi:@three.npy alibi:@even.npy alibi:@short.npy alibi:@inf.npy \
    sinks:@three.npy sinks:@inf.npy relative:@three.npy relative:@even.npy relative:@heads.npy relative:@nan.npy \
    alibi+bias:@queries.npy bias:@keys.npy bias:@batch.npy bias:@integers.npy bias:@flat.npy; do
    run attend "${qkv[@]}" --output o.npy --scores "$scores"
done

# What is written is not what is read.
quietly generate --shape 4 --seed 4 --output slopes.npy
run attend "${qkv[@]}" --output slopes.npy --scores alibi:@slopes.npy
run attend "${qkv[@]}" --output o.npy --stats slopes.npy --scores softcap:3+sinks:@slopes.npy
run show --length 9 --pattern causal --scores alibi
ls
