# SPDX-License-Identifier: Apache-2.0
# Patterns that cannot be read, or do not fit the length.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
for pattern in '' fully causal+ causal+causal window window: window:-1 window:1,2,3 window:x documents: documents:4,x \
    documents:4,3 documents:0,8 documents:8,8 documents:9223372036854775807,1 documents:@nowhere.npy causal,window:3; do
    run show --pattern "$pattern" --length 8
done
npy lengths.npy '<i8' False '(2,)' 0
printf '\x05\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0' >>lengths.npy
run show --pattern documents:@lengths.npy --length 8
run show --pattern documents:@lengths.npy --length 9
npy floats.npy '<f4' False '(2,)' 8
run show --pattern documents:@floats.npy --length 8
npy square.npy '<i8' False '(2, 2)' 32
run show --pattern documents:@square.npy --length 8
