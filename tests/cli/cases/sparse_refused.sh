# SPDX-License-Identifier: Apache-2.0
# Patterns that are refused: the character, and what was expected there.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions
for pattern in dilated dilated: dilated:64 dilated:0/1 dilated:64/0 dilated:64/65 dilated:64/1/2 dilated:64/1,/2 \
    dilated:64/1,2 dilated:a/1 dilated:64/1:mode=other dilated:64/1:paper dilated:64/1+dilated:64/1 dilated:-1/1 \
    blocks blocks: blocks:0 blocks:-4 blocks:8:local blocks:8:local=x blocks:8:near=1 blocks:8:local=1:local=2 \
    blocks:8:stride=0 blocks:8:density=0 blocks:8:density=1.01 blocks:8:density=-0.1 blocks:8:density=90% \
    blocks:8:density=.1:local=1 blocks:8:density= blocks:8:density=1e-1 blocks:8:mask=file.npy blocks:8:mask=@ \
    blocks:8:mask=@none.npy blocks:8+blocks:8 blocks:8:random=99999999999999999999; do
    run show --pattern "$pattern" --length 20
done
npy float.npy '<f4' False '(3, 3)' 36
npy bytes.npy '|u1' False '(3, 3)' 9
npy small.npy '|b1' False '(2, 3)' 6
npy flat.npy '|b1' False '(9,)' 9
npy heads.npy '|b1' False '(3, 3, 3)' 27
npy odd.npy '|b1' False '(3, 3)' 9
printf '\2' | dd of=odd.npy bs=1 seek=$((128 + 4)) conv=notrunc status=none
for file in float bytes small flat heads odd; do
    run show --pattern "blocks:8:mask=@$file.npy" --length 20 --heads 2
done
run show --preset sparse --length 20
run show --length 20
run plan --length 64 --heads 1 --dim 8 --preset longest
run attend --query q --key k --value v --output o --tiles spiral
