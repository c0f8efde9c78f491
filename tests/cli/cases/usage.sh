# SPDX-License-Identifier: Apache-2.0
# Wrong usage: what was given, what was expected, exit 2.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
run
run frobnicate
run attend
run attend --query
run attend --query --key k.npy
run attend --query ''
run attend --frob 1
run attend -x
run attend --query a --query b
run attend stray
run attend --threads 0
run attend --threads 2x
run attend --threads 99999999999999999999
run attend --scale fast
run attend --scale inf
run attend --scale 1e39
run attend --layout sbhd
run attend --kernel mmx
run verify --quick=yes
run show --pattern full
run show --pattern full --length 0
run show --pattern full --length 8 --output picture.gif
run show --pattern full --length 1M --output counts.npy
run show --pattern full --length 1G
run show --pattern full --length 1M --heads 1024
run generate --shape 1,2,x --seed 1 --output a.npy
run generate --shape 1,,2 --seed 1 --output a.npy
run generate --shape -1,2 --seed 1 --output a.npy
run generate --shape 1,1,1,1,1,1,1,1,1 --seed 1 --output a.npy
run generate --shape 8,8 --seed -1 --output a.npy
run generate --shape 4G,4G,4G --seed 1 --output a.npy
run generate --shape 8,8 --seed 1 --dtype bfloat16 --output a.npy
run info extra
ls
