# SPDX-License-Identifier: Apache-2.0
# Pictures in the terminal: exact while they fit, shaded beyond.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
run show --pattern full --length 1
run show --pattern causal --length 12 --heads 8
run show --pattern window:2,1 --length 20
run show --pattern causal+window:3+documents:10,1,9 --length 20
run show --pattern causal --length 41
run show --pattern causal+window:12 --length 100
run show --pattern documents:30000,20000,15536 --length 64K
run show --pattern window:1000 --length 1M
export LC_ALL=C
run show --pattern causal+window:100,0+documents:200,100,212 --length 512
