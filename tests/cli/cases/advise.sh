# SPDX-License-Identifier: Apache-2.0
# What is advised runs as advised: the command that is printed, on made-up tensors, holds what was planned for it and no
# more than the budget. Which choice wins depends on the machine, and is not looked at.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv

# number NAME FILE: the first value of a field.
number() { sed -nE "s/^ *\"$1\": \"?([^\",]*)\"?,?\$/\1/p" "$2" | head -1; }

# advised BUDGET SHAPE OPTION...: the statistics of what is advised are in s.json.
advised() {
    local budget=$1 shape=$2 command words
    quietly advise --memory "$budget" --json "${@:3}"
    cp ../out advice.json
    rm -f s.json
    command=$(sed -nE 's/^ *"command": "ringattn (.*)",$/\1/p' advice.json)
    command=${command/q.npy/gen:1}
    command=${command/k.npy/gen:2}
    command=${command/v.npy/gen:3}
    command=${command/o.npy/null}
    read -ra words <<<"$command"
    quietly "${words[@]}" --shape "$shape" --rows 8 --stats s.json
    for field in strategy transport order ring_size; do
        if [[ $(number $field advice.json) != "$(number $field s.json)" ]]; then echo "$field differs"; fi
    done
}

# held BUDGET: what the run held, to what was advised and to the budget; in a process of ranks as threads, in all.
held() {
    local planned peak
    planned=$(number planned_bytes advice.json)
    peak=$(number peak_bytes s.json)
    if ((0 < peak && peak <= planned && planned <= $1)); then echo 'held as advised'; else echo "held $peak, advised $planned of $1"; fi
}

# In a budget that the tensors alone exceed: virtual ranks. Of one thread, so that it is enough on every machine.
advised 5000000 1,2000,4,64 --length 2000 --heads 4 --dim 64 --causal --threads 1
held 5000000
number transport s.json
advised 5000000 1,2000,4,64 --length 2000 --heads 4 --dim 64 --pattern "window:100,20+documents:1500,500" --threads 1
held 5000000
# Ranks that are threads.
advised 100000000 1,1000,4,32 --length 1000 --heads 4 --dim 32 --causal --ranks 2 --transport threads
held 100000000
number transport s.json
number ring_size s.json

# The text: one that is taken, and a reason for each of the others. What a pattern has is not added to it.
quietly advise --length 600 --heads 2 --dim 32 --threads 1 --memory 2M --pattern causal+window:64,0 --causal
sed -nE 's/^\$ .*(--pattern [^ ]*).*/\1/p' ../out
grep -cE ' (yes|no) +taken$' ../out
grep -E '^(local|ring|allgather|broadcast) ' ../out | sed -E '/ (yes|no) +(taken$|does not fit: |no faster|[0-9]+% slower: )/d'
