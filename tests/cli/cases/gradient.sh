# SPDX-License-Identifier: Apache-2.0
# gradient, then check: layouts, dtypes, batches, grouped heads, lengths that differ, patterns; the same bits on every way.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
dictionary() { head -c 128 "$1" | tail -c 118 | sed 's/ *$//'; }
unseen() { sed -e 's/error [0-9.e+-]*/error N/' -e 's/tolerance [0-9.e+-]*/tolerance N/'; }
results=(--query-gradient dq.npy --key-gradient dk.npy --value-gradient dv.npy)
forward=(--output o.npy --lse l.npy)

# both SHAPE_OF_OUTPUT OPTION...: with the results of attend and without them, then check.
both() {
    local options=(--output-gradient do.npy "${@:2}")
    quietly generate --shape "$1" --seed 4 --output do.npy
    run gradient "${qkv[@]}" "${options[@]}" "${results[@]}"
    for name in dq dk dv; do dictionary $name.npy && mv $name.npy first_$name.npy; done
    quietly attend "${qkv[@]}" "${forward[@]}" "${@:2}"
    quietly gradient "${qkv[@]}" "${options[@]}" "${forward[@]}" "${results[@]}"
    for name in dq dk dv; do cmp $name.npy first_$name.npy; done
    run check "${qkv[@]}" "${options[@]}" "${forward[@]}" "${results[@]}" | unseen
    run check "${qkv[@]}" "${options[@]}" "${results[@]}" | unseen
    rm -f ./d*.npy first_* o.npy l.npy
}
tensors 2,37,4,16 2,53,2,16 2,53,2,24
both 2,37,4,24
both 2,37,4,24 --pattern window:5,0+documents:20,33 --scale -0.5
tensors 37,4,16 53,4,16 53,4,16
both 37,4,16 --pattern causal --scale 0
tensors 2,4,37,16 2,2,53,16 2,2,53,24 --dtype float16
both 2,4,37,24 --layout bhsd --pattern causal
both 2,4,37,24 --layout bhsd --preset longnet-causal
tensors 1,1,8,64 1,2000,2,64 1,2000,2,64
both 1,1,8,64
tensors 70,2,8 70,2,8 70,2,8
both 70,2,8 --pattern blocks:16:random=2

# A gradient of the loss by the log-sum-exp.
quietly generate --shape 70,2,8 --seed 4 --output do.npy
quietly generate --shape 1,2,70 --seed 5 --output dl.npy
options=(--output-gradient do.npy --lse-gradient dl.npy --pattern causal)
run gradient "${qkv[@]}" "${options[@]}" "${results[@]}"
run check "${qkv[@]}" "${options[@]}" "${results[@]}" | unseen
run check "${qkv[@]}" --output-gradient do.npy --pattern causal "${results[@]}" --rows 9 | unseen | sed 's/ at batch.*//'

# Any number of threads, any of the three gradients, inputs made up: the same bits.
for threads in 1 2 3 8; do
    quietly gradient "${qkv[@]}" "${options[@]}" --query-gradient q$threads.npy --key-gradient k$threads.npy \
        --value-gradient v$threads.npy --threads $threads
    for name in q k v; do cmp d$name.npy $name$threads.npy; done
done
for name in query key value; do
    quietly gradient "${qkv[@]}" "${options[@]}" --$name-gradient alone.npy
    cmp alone.npy d${name:0:1}.npy
    run check "${qkv[@]}" "${options[@]}" --$name-gradient alone.npy | unseen
done
made=(--query gen:1 --key gen:2 --value gen:3 --shape "70,2,8" --output-gradient gen:4 --lse-gradient gen:5)
quietly gradient "${made[@]}" --pattern causal --query-gradient gq.npy --key-gradient gk.npy --value-gradient gv.npy
for name in q k v; do cmp d$name.npy g$name.npy; done
run check "${made[@]}" --pattern causal "${results[@]}" | unseen
quietly gradient "${qkv[@]}" --output-gradient gen:4 --lse-gradient gen:5 --distribution normal --pattern causal \
    --query-gradient gq.npy
cmp dq.npy gq.npy
ls

# The wrong pattern, and another tensor's gradient, are noticed.
run check "${qkv[@]}" --output-gradient do.npy --lse-gradient dl.npy "${results[@]}" --rows 5 | unseen | sed 's/ at batch.*//'
run check "${qkv[@]}" "${options[@]}" --key-gradient dv.npy --value-gradient dk.npy --rows 5 | unseen | sed 's/ at batch.*//'
run check "${qkv[@]}" "${options[@]}" --key-gradient dv.npy --rows 5 --tolerance 100 | unseen

# Nothing to do.
npy none.npy '<f4' False '(0, 2, 8)' 0
quietly gradient --query none.npy --key k.npy --value v.npy --output-gradient none.npy "${results[@]}"
od -A n -t x4 -j 128 dk.npy | sort -u
quietly gradient --query q.npy --key none.npy --value none.npy --output-gradient do.npy "${results[@]}"
od -A n -t x4 -j 128 dq.npy | sort -u
for name in dq dk dv; do dictionary $name.npy; done
