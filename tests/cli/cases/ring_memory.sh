# SPDX-License-Identifier: Apache-2.0
# A sequence that one rank cannot hold: inside a limit of the system, 32 virtual ranks can. Left to itself the command
# takes as many as it needs, and its result has the bits of a run in one piece.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
if instrumented; then skip 'sanitizers need more memory than the limit leaves'; fi
figures() { sed -E 's/ring of [0-9]+/ring of R/; s/(memory|chunks of) [0-9]+/\1 N/g; s/into [0-9.]+ [KMG]iB: [0-9.]+ [KMG]iB/into N: N/'; }
tensors 16000,8,64 16000,8,64 16000,8,64
one=(--pattern "window:300,0" --kernel generic --threads 1)
for ring in 1 32; do
    run plan --length 16000 --heads 8 --dim 64 --ring $ring "${one[@]}" | sed -n 's/.*\(a process holds .*\)/\1/p'
done
quietly attend "${qkv[@]}" --output whole.npy "${one[@]}" --stats whole.json
(
    ulimit -d 60000 # KiB, of memory that a process writes to
    run attend "${qkv[@]}" --output o.npy --ring 1 "${one[@]}"
    ls
    run attend "${qkv[@]}" --output parts.npy "${one[@]}" --stats parts.json | figures
    run attend "${qkv[@]}" --output o.npy --ring 32 "${one[@]}"
)
cmp whole.npy parts.npy && echo 'the same bits'
for name in whole parts; do
    sed -nE '/"(strategy|transport)"/p' $name.json
done
run check "${qkv[@]}" --output o.npy --pattern window:300,0 | sed 's/error [0-9.e+-]*/error N/'
