# SPDX-License-Identifier: Apache-2.0
# What cannot be advised about: the values, what was expected, exit 2; before anything is measured.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
advise() {
    run advise --kernel generic --threads 1 "$@"
}
advise
advise --length 1000 --heads 8 --dim 64
advise --length 0 --heads 8 --dim 64 --memory 1G
advise --length 1000 --heads 8 --dim 64 --memory lots
advise --length 1000 --heads 8 --dim 64 --memory 0
advise --length 1000 --heads 8 --kv-heads 3 --dim 64 --memory 1G
advise --length 1000 --heads 8 --dim 2000 --memory 1G
advise --length 1000 --heads 8 --dim 64 --memory 1G --pattern spiral
advise --length 1000 --heads 8 --dim 64 --memory 1G --preset shortnet
advise --length 1000 --heads 8 --dim 64 --memory 1G --pattern documents:100,100
advise --length 1000 --heads 8 --dim 64 --memory 1G --dtype int64
advise --length 1000 --heads 8 --dim 64 --memory 1G --ranks 0
advise --length 1000 --heads 8 --dim 64 --memory 1G --ranks 2 --transport pigeon
advise --length 1000 --heads 8 --dim 64 --memory 1G --transport threads
advise --length 4611686018427387904 --heads 8 --dim 64 --memory 1G
# Nothing fits: the least that would, and the ring that it takes.
advise --length 8K --heads 8 --dim 64 --memory 1M
advise --length 8K --heads 8 --dim 64 --memory 1M --ranks 4 --transport sim
advise --length 8K --heads 8 --dim 64 --memory 4M --ranks 4 --transport threads --causal
