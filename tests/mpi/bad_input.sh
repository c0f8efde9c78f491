#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What cannot be done over processes is refused by all of them, once, with exit 2 and before anything is written.
# shellcheck source=tests/mpi/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
tensors 300,2,16
files=("${qkv[@]}" --output o.npy --lse l.npy --stats s.json)
job=(attend "${files[@]}" --transport mpi)

# said_once WORDS: all ranks know it, one says it.
said_once() {
    (($(grep -cF -- "$1" err) == 1)) || fail "said '$1' $(grep -cF -- "$1" err) times"
}

over 2 "${job[@]}" --ring 3
refused $? '--ring 3: with --transport mpi the ring is the 2 processes that mpirun has started'
said_once '--ring 3'
"$binary" "${job[@]}" --ring 4 >out 2>err
refused $? 'start it with mpirun -n 4'
over 2 "${job[@]}" --memory 10KiB
refused $? 'memory 10 KiB: a ring of 2 needs'
said_once 'memory 10 KiB'
over 2 attend --query nowhere.npy "${files[@]:2}" --transport mpi
refused $? 'nowhere.npy'

# differ WORDS OPTION... : OPTION OPTION...: one process of three is started with other options than the others.
differ() {
    local words=$1 separator
    shift
    for ((separator = 1; separator <= $#; separator++)); do
        if [[ ${!separator} == : ]]; then break; fi
    done
    "${mpirun[@]}" -n 2 "$binary" "${job[@]}" "${@:1:separator-1}" : \
        -n 1 "$binary" "${job[@]}" "${@:separator+1}" >out 2>err
    refused $? "$words"
    grep -qE 'rank 2( |:)' err || fail "rank 2 is not named"
    (($(grep -c '^ringattn' err) == 1)) || fail "said more than once"
}
differ 'pattern: documents of 2' --pattern documents:100,200 : --pattern documents:200,100
differ 'kernel: generic' : --kernel generic

# other_input NAME WORDS FILE...: rank 2 reads another file, or makes up something else, as its NAME.
other_input() {
    local name=$1 words=$2 own=$3 input options=() others=()
    for input in query key value; do
        options+=("--$input" "${4:-${input:0:1}.npy}")
        if [[ $input == "$name" ]]; then
            others+=("--$input" "$own")
        else
            others+=("--$input" "${4:-${input:0:1}.npy}")
        fi
    done
    local outputs=(--output o.npy --lse l.npy --transport mpi "${@:5}")
    "${mpirun[@]}" -n 2 "$binary" attend "${options[@]}" "${outputs[@]}" : \
        -n 1 "$binary" attend "${others[@]}" "${outputs[@]}" >out 2>err
    refused $? "$words"
    grep -qE 'rank 2( |:)' err || fail "rank 2 is not named"
    (($(grep -c '^ringattn' err) == 1)) || fail "said more than once"
}
"$binary" generate --shape 300,2,16 --seed 9 --output other.npy
cp -p v.npy copy.npy # the same bytes and times in another file are the same input
other_input query '"query: ' other.npy
other_input key '"key: ' other.npy
other_input value '"value: ' other.npy
other_input value '"value: made up, normal, seed 8' gen:8 gen:7 --shape 300,2,16
touch -r v.npy other.npy # the content alone
other_input value '"value: ' other.npy
"${mpirun[@]}" -n 1 "$binary" "${job[@]}" : -n 1 "$binary" attend --query q.npy --key k.npy --value copy.npy \
    "${files[@]:6}" --transport mpi >out 2>err || fail "a copy is refused: exit $?"

# Gradients: rank 2 starts from another output gradient.
rm o.npy l.npy s.json
quietly attend "${qkv[@]}" --output forward.npy --lse forward_lse.npy
gradients=(gradient "${qkv[@]}" --output forward.npy --lse forward_lse.npy --query-gradient o.npy --transport mpi)
"${mpirun[@]}" -n 2 "$binary" "${gradients[@]}" --output-gradient v.npy : \
    -n 1 "$binary" "${gradients[@]}" --output-gradient other.npy >out 2>err
refused $? ', output gradient: '
grep -qE 'rank 2( |:)' err || fail "rank 2 is not named"
