# SPDX-License-Identifier: Apache-2.0
# More than there is: read in parts, and that is said; a run that is to be saved has to be told how. The files are sparse.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
if instrumented; then skip 'sanitizers need more address space than the limit leaves'; fi
figures() { sed -E 's/ring of [0-9]+/ring of R/; s/(memory|chunks of) [0-9]+/\1 N/g; s/into [0-9.]+ [KMG]iB: [0-9.]+ [KMG]iB/into N: N/; s/error [0-9.e+-]*/error N/'; }
for name in q k v; do npy $name.npy '<f4' False '(20000, 8, 64)' $((20000 * 8 * 64 * 4)); done
ulimit -v 200000
run attend "${qkv[@]}" --output null --pattern window:100,0 | figures
run attend "${qkv[@]}" --output null --pattern window:100,0 --checkpoint state
# Keys and values pass by a block at a time: neither their length nor their heads matter.
run check "${qkv[@]}" --output q.npy --rows 4
for name in q k v; do npy $name.npy '<f4' False '(2000000, 1, 64)' $((2000000 * 64 * 4)); done
run check "${qkv[@]}" --output q.npy --rows 4
ls
