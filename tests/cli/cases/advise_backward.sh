# SPDX-License-Identifier: Apache-2.0
# What is advised for gradients runs as advised: after the forward pass, the command that is printed holds what was planned
# for it and no more than the budget. Which choice wins depends on the machine, and is not looked at.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv

# number NAME FILE: the first value of a field.
number() { sed -nE "s/^ *\"$1\": \"?([^\",]*)\"?,?\$/\1/p" "$2" | head -1; }

# advised BUDGET SHAPE DTYPE OPTION...: the statistics of what is advised are in s.json.
advised() {
    local budget=$1 shape=$2 dtype=$3 command words
    quietly advise --backward --memory "$budget" --dtype "$dtype" --json "${@:4}"
    cp ../out advice.json
    rm -f s.json
    quietly attend --query gen:1 --key gen:2 --value gen:3 --shape "$shape" --dtype "$dtype" --output o.safetensors \
        --lse lse.npy --pattern "$(sed -nE 's/^ *"pattern": "(.*)",$/\1/p' advice.json)" --threads 1
    command=$(sed -nE 's/^ *"command": "ringattn (.*)",$/\1/p' advice.json)
    command=${command/q.npy/gen:1}
    command=${command/k.npy/gen:2}
    command=${command/v.npy/gen:3}
    command=${command/o.npy/o.safetensors}
    command=${command/do.npy/gen:4}
    for gradient in dq dk dv; do command=${command/$gradient.npy/null}; done
    read -ra words <<<"$command"
    quietly "${words[@]}" --shape "$shape" --dtype "$dtype" --rows 8 --stats s.json
    for field in direction strategy transport order ring_size; do
        if [[ $(number $field advice.json) != "$(number $field s.json)" ]]; then echo "$field differs"; fi
    done
}

# held BUDGET: what the run held, to what was advised and to the budget; of a run in one piece, beside the tensors.
held() {
    local planned peak
    planned=$(number planned_bytes advice.json)
    peak=$(number peak_bytes s.json)
    if ((0 < peak && peak <= planned && planned <= $1)); then echo 'held as advised'; else echo "held $peak, advised $planned of $1"; fi
}

# In a budget that the tensors alone exceed: virtual ranks. Of one thread, so that it is enough on every machine.
advised 8000000 1,2000,4,64 float32 --length 2000 --heads 4 --dim 64 --causal --threads 1
held 8000000
number direction s.json
number transport s.json
advised 8000000 1,2000,4,64 float32 --length 2000 --heads 4 --dim 64 --pattern "window:100,20+documents:1500,500" --threads 1
held 8000000
# Ranks that are threads.
advised 100000000 1,1000,4,32 float32 --length 1000 --heads 4 --dim 32 --causal --ranks 2 --transport threads
held 100000000
number transport s.json
number ring_size s.json
# In one piece: tensors and their gradients are held, and the float32 sums of those of 16 bits.
advised 100000000 1,999,4,32 bfloat16 --length 999 --heads 4 --dim 32 --pattern dilated:64/1,256/4 --threads 2
held 100000000
number strategy s.json
beside=$(($(number planned_bytes advice.json) - 2 * 4 * 999 * 4 * 32 * 2 - 4 * 999 * 4))
if (($(number peak_bytes s.json) <= beside)); then echo 'no more beside the tensors than advised'; fi

# The text: what it is about, one choice that is taken, and a reason for each of the others.
quietly advise --backward --length 600 --heads 2 --dim 32 --threads 1 --memory 3M --pattern causal+window:64,0
head -1 ../out
sed -nE 's/^\$ (.* --pattern [^ ]*).*/\1/p' ../out
grep -cE ' (yes|no) +taken$' ../out
grep -E '^(local|ring|allgather|broadcast) ' ../out | sed -E '/ (yes|no) +(taken$|needs |no faster|[0-9]+% slower: )/d'

# Nothing fits: the least that would, and the ring that it takes.
run advise --backward --kernel generic --threads 1 --length 8K --heads 8 --dim 64 --memory 1M
run advise --backward --kernel generic --threads 1 --length 8K --heads 8 --dim 64 --memory 4M --ranks 4 --transport threads
