# SPDX-License-Identifier: Apache-2.0
# Gradients in .safetensors files and in 16 bits: dtypes, names, all tensors of a problem in one file.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
header() { head -c 160 "$1" | grep -a -o '{.*}}'; }
unseen() { sed -e 's/error [0-9.e+-]*/error N/' -e 's/tolerance [0-9.e+-]*/tolerance N/'; }
st=(--query q.safetensors --key k.safetensors --value v.safetensors --output-gradient do.safetensors)
results=(--query-gradient dq.safetensors --key-gradient dk.safetensors#grad --value-gradient dv.safetensors)
made() {
    local seed=0 name
    for name in q k v 'do'; do quietly generate --shape "$1" --seed $((++seed)) --dtype "$2" --output $name.safetensors; done
}
for dtype in f32 f16 bf16; do
    made 2,37,4,16 $dtype
    run gradient "${st[@]}" "${results[@]}"
    for name in dq dk dv; do header $name.safetensors; done
    run check "${st[@]}" "${results[@]}" | unseen
    mkdir -p $dtype
    mv d[qkv].safetensors $dtype
    quietly attend "${st[@]:0:6}" --output o.safetensors --lse l.safetensors
    quietly gradient "${st[@]}" --output o.safetensors --lse l.safetensors "${results[@]}"
    for name in dq dk dv; do cmp $name.safetensors $dtype/$name.safetensors; done
done

# bfloat16 has no place in .npy; another dtype for the gradients has.
rm d[qkv].safetensors
run gradient "${st[@]}" --query-gradient dq.npy
run gradient "${st[@]}" --query-gradient dq.npy --gradient-dtype f32
run check "${st[@]}" --query-gradient dq.npy | unseen
run gradient "${st[@]}" --query-gradient dq.npy --gradient-dtype int64

# Inputs and their output gradient in one file; each result in a file of its own.
offsets() { printf '{"dtype":"BF16","shape":[2,37,4,16],"data_offsets":[%d,%d]}' $(($1 * 9472)) $((($1 + 1) * 9472)); }
safetensors all.safetensors "{\"q\":$(offsets 0),\"k\":$(offsets 1),\"v\":$(offsets 2),\"do\":$(offsets 3)}" 0
for name in q k v 'do'; do tail -c 9472 $name.safetensors >>all.safetensors; done
all=(--query all.safetensors#q --key all.safetensors#k --value all.safetensors#v --output-gradient all.safetensors#do)
run gradient "${all[@]}" --key-gradient dk.safetensors#grad
cmp dk.safetensors bf16/dk.safetensors
run gradient "${all[@]}" --key-gradient all.safetensors#grad
run gradient "${all[@]}" --key-gradient g.safetensors#k --value-gradient g.safetensors#v
run gradient "${all[@]:0:6}" --output-gradient all.safetensors#DO --key-gradient dk.safetensors
ls
