# SPDX-License-Identifier: Apache-2.0
# Tensors that never change: a seed means the same bytes for ever.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
run generate --shape 3,5 --seed 1 --output a.npy
od -A d -t x1z -N 128 a.npy
od -A n -t x4 -j 128 a.npy
run generate --shape 3,5 --seed 1 --distribution uniform --output b.npy
od -A n -t x4 -j 128 b.npy
run generate --shape 3,5 --seed 1 --dtype float16 --output c.npy
od -A d -t x2 -j 128 c.npy
run generate --shape 2M --seed 9 --output d.npy
cksum d.npy
run generate --shape 8 --seed 1 --output nowhere/e.npy
ls
