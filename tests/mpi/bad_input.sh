#!/usr/bin/env bash
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
refused $? 'memory 10240 bytes: a ring of 2 needs'
said_once 'memory 10240 bytes'
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
