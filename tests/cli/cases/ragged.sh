# SPDX-License-Identifier: Apache-2.0
# Packed sequences, lengths of batch elements and masks: from files, over ranks, checked, drawn, refused.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
# integers FILE SHAPE NUMBER...: an int64 array.
integers() {
    npy "$1" '<i8' False "$2" 0
    for n in "${@:3}"; do printf '%b' "\\x$(printf %02x "$n")\\0\\0\\0\\0\\0\\0\\0"; done >>"$1"
}
judged() {
    printf '%s\n' "$*"
    quietly attend "${qkv[@]}" --output o.npy --lse l.npy "$@"
    "$binary" check "${qkv[@]}" --output o.npy --lse l.npy --pattern "$2" | sed 's/error [0-9.e+-]*/error N/; s/tolerance [0-9.e+-]*/tolerance N/'
}
tensors 2,90,2,8 2,130,2,8 2,130,2,8
integers pairs.npy '(4, 2)' 3 40 0 10 80 79 7 1
integers lengths.npy '(2, 2)' 20 130 0 77
integers places.npy '(2, 3)' 20 130 5 0 77 70
quietly show --pattern blocks:7:local=1:stride=3 --length 90 --kv-length 130 --output counts.npy
{ npy mask.npy '|b1' False '(90, 130)' 0 && tail -c $((90 * 130)) counts.npy >>mask.npy; }
safetensors mask.safetensors '{"seen":{"dtype":"BOOL","shape":[90,130],"data_offsets":[0,11700]}}' 0
tail -c $((90 * 130)) counts.npy >>mask.safetensors
for pattern in documents:3/40,0/10,80/79,7/1 causal+documents:@pairs.npy causal+lengths:@lengths.npy \
    window:30,4+lengths:@places.npy mask:@mask.npy causal+mask:@mask.npy+lengths:@lengths.npy \
    mask:@mask.safetensors#seen+window:40; do
    judged --pattern "$pattern"
    judged --pattern "$pattern" --ring 3
done
run show --pattern causal+documents:3/10,6/4,1/16 --length 10 --kv-length 30
integers one.npy '(1, 2)' 5 16
run show --pattern causal+lengths:@one.npy --length 16
integers two.npy '(2, 2)' 5 16 0 11
run show --pattern causal+lengths:@two.npy --length 16 --batch 2 --heads 3
run show --pattern causal+lengths:@two.npy --length 16 --batch 2 --heads 3 --element 1
run show --pattern causal+lengths:@two.npy --length 16
run show --pattern causal+lengths:@two.npy --length 16 --batch 2 --element 2
quietly show --pattern lengths:@two.npy --length 16 --batch 2 --element 1 --output counts.npy
tail -c 16 counts.npy | od -An -tu1 -w16
for pattern in documents:3/40,87/91 documents:90/130,1 documents:@lengths.npy lengths:@pairs.npy lengths:@mask.npy \
    lengths lengths:@nowhere.npy mask mask:@lengths.npy mask:@nowhere.npy mask:@mask.npy+mask:@mask.npy \
    documents:@pairs.npy+dilated:8/2 lengths:@ causal+mask:@+full; do
    run attend "${qkv[@]}" --output refused.npy --pattern "$pattern"
done
run attend "${qkv[@]}" --output refused.npy --pattern causal+documents:@pairs.npy --query-position 4
run attend "${qkv[@]}" --output refused.npy --pattern lengths:@places.npy --query-position 4
if [[ -e refused.npy ]]; then echo 'refused.npy was written'; fi
