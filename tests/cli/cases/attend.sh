# SPDX-License-Identifier: Apache-2.0
# attend, then check: layouts, dtypes, batches, grouped heads, lengths that differ, patterns.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
dictionary() { head -c 128 "$1" | tail -c 118 | sed 's/ *$//'; }
both() {
    run attend "${qkv[@]}" --output o.npy --lse l.npy "$@"
    run check "${qkv[@]}" --output o.npy --lse l.npy "$@" | sed 's/error [0-9.e+-]*/error N/'
    dictionary o.npy
    dictionary l.npy
    rm -f o.npy l.npy
}
tensors 2,37,4,16 2,53,2,16 2,53,2,24
both
both --pattern causal
# Scores twice as large as usual: the tolerance follows them, and is that of the row whose error comes closest to it.
both --pattern window:5,0+documents:20,33 --scale -0.5 | sed 's/tolerance 2\.[0-9]*e-06/tolerance N/'
tensors 37,4,16 53,4,16 53,4,16
both --pattern causal
tensors 2,4,37,16 2,2,53,16 2,2,53,24 --dtype float16
both --layout bhsd --pattern causal
tensors 1,1,8,64 1,2000,2,64 1,2000,2,64
both

# The wrong pattern is noticed.
tensors 40,2,8 40,2,8 40,2,8
quietly attend "${qkv[@]}" --output o.npy --lse l.npy
run check "${qkv[@]}" --output o.npy --lse l.npy --pattern causal --rows 5 | sed 's/error [0-9.e+-]*/error N/'
run check "${qkv[@]}" --output o.npy --pattern causal --rows 5 --tolerance 100 | sed 's/error [0-9.e+-]*/error N/'

# The result does not depend on the number of threads.
for threads in 1 2 3 8; do
    quietly attend "${qkv[@]}" --output o$threads.npy --pattern causal --threads $threads
    cmp o1.npy o$threads.npy
done
ls
