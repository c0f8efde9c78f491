# SPDX-License-Identifier: Apache-2.0
# gen:SEED in place of a file: the same tensors, hence the same bits, in one piece and over ranks, and in check.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
errors='s/error [0-9.e+-]*/error N/'
made=(--query gen:1 --key gen:2 --value gen:3)

# same ATTEND-OPTION...: over files and without, one result.
same() {
    local options=("$@")
    quietly attend "${qkv[@]}" --output files.npy --lse files_l.npy "${options[@]}"
    quietly attend "${made[@]}" "${shape[@]}" --output gen.npy --lse gen_l.npy "${options[@]}"
    cmp files.npy gen.npy
    cmp files_l.npy gen_l.npy
}

# everywhere SHAPE KV-SHAPE GENERATE-OPTION...: in one piece, and over ranks on both transports.
everywhere() {
    tensors "$1" "$2" "$2" "${@:3}"
    shape=(--shape "$1" --kv-shape "$2" "${@:3}")
    same --pattern causal
    for transport in sim threads; do
        for strategy in ring allgather broadcast; do
            same --pattern causal --ring 3 --transport $transport --strategy $strategy --order zigzag
        done
    done
    run check "${made[@]}" "${shape[@]}" --output gen.npy --lse gen_l.npy --pattern causal | sed "$errors"
    rm ./*.npy
}
everywhere 2,150,4,16 2,170,2,16
everywhere 300,4,64 300,2,64 --distribution uniform
everywhere 1,130,2,24 1,200,1,24 --dtype float16

# Heads before the sequence, in the shape too.
tensors 2,4,70,16 2,2,90,16 2,2,90,16
shape=(--shape "2,4,70,16" --kv-shape "2,2,90,16")
same --layout bhsd
same --layout bhsd --ring 2
run check "${made[@]}" "${shape[@]}" --layout bhsd --output gen.npy | sed "$errors"

# One shape for all, and made-up tensors beside files.
tensors 1,64,2,8 1,64,2,8 1,64,2,8
shape=(--shape "1,64,2,8")
same
for mixed in "gen:1 k.npy v.npy --shape" "q.npy gen:2 v.npy --kv-shape" "q.npy k.npy gen:3 --shape"; do
    read -r q k v option <<<"$mixed"
    quietly attend --query "$q" --key "$k" --value "$v" "$option" 1,64,2,8 --output mixed.npy
    cmp files.npy mixed.npy
done

# bfloat16, which only .safetensors files hold; a sparse pattern.
seed=0
for name in q k v; do
    quietly generate --shape 1,64,2,8 --seed $((++seed)) --dtype bf16 --output $name.safetensors
done
sparse=(--pattern "dilated:8/1,32/2:mode=torchscale")
files=(--query q.safetensors --key k.safetensors --value v.safetensors)
quietly attend "${files[@]}" "${sparse[@]}" --output files.safetensors
quietly attend "${made[@]}" "${shape[@]}" --dtype bf16 "${sparse[@]}" --output gen.safetensors
cmp files.safetensors gen.safetensors
bf16="$errors; s/tolerance [0-9.e+-]*/tolerance N/" # it follows the row, and the error the kernel
run check "${files[@]}" "${sparse[@]}" --output gen.safetensors | sed "$bf16"
run check "${made[@]}" "${shape[@]}" --dtype bf16 "${sparse[@]}" --output files.safetensors | sed "$bf16"

# Another seed is another tensor.
quietly attend --query gen:4 --key gen:2 --value gen:3 "${shape[@]}" --output other.npy
run check "${made[@]}" "${shape[@]}" --output other.npy --rows 4 | sed -e "$errors" -e 's/ at batch.*//'
ls
