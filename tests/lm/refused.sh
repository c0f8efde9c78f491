#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Bad input: a message with the values and exit 2, on one rank and on three; a loss that is not finite: exit 1.
# shellcheck source=tests/lm/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# refuses CODE WORDS ARGS...: said once, whatever the number of ranks.
refuses() {
    local r code
    for r in "${ranks[@]:0:${several:-1}}"; do
        lm "$r" "${@:3}"
        code=$?
        ((code == $1)) || fail "lm ${*:3}: exit $code instead of $1"
        (($(grep -cF -- "$2" err) == 1)) || fail "lm ${*:3}: did not say once '$2'"
    done
}

: >empty
several=2 refuses 2 "--data 'empty': is empty" train --data empty
refuses 2 "--data 'none': cannot be opened" train --data none
refuses 2 "--data '.': is no file" train --data .
several=2 refuses 2 'is longer than the data' train "${model[@]}" --context 1M
refuses 2 '--heads 5: do not divide --embed 36' train "${model[@]}" --heads 5
refuses 2 '--embed 36, --heads 4: a head is 9 wide' train "${model[@]}" --heads 4
refuses 2 "--pattern 'full': lets a byte see those after it" train "${model[@]}" --pattern full
refuses 2 'sideways' train "${model[@]}" --context 100 --pattern causal+sideways:3
refuses 2 "--steps '0': is no value" train "${model[@]}" --steps 0
refuses 2 "--order 'spiral': is no value" train "${model[@]}" --order spiral
refuses 2 '--data is missing' train
refuses 2 '--checkpoint is missing' eval --data text
refuses 2 "--checkpoint 'none': there is none" eval --data text --checkpoint none
refuses 2 '--prompt is missing' generate --checkpoint none
refuses 2 'expected train, eval or generate' fly
refuses 2 '--colour: is no option' train --colour red
refuses 2 "--log 'no/where': cannot be opened" train "${model[@]}" --context 100 --log no/where

# A file that is given twice stays as it is, by whatever name.
cp text kept
several=2 refuses 2 "--log 'text': is the file of --data" train "${model[@]}" --context 100 --log text
ln -s text other
refuses 2 "--log 'other': is the file of --data" train "${model[@]}" --context 100 --log other
refuses 2 "--checkpoint './text': is the file of --data" train "${model[@]}" --context 100 --checkpoint ./text
refuses 2 "--log 'c': is the file of --checkpoint" train "${model[@]}" --context 100 --log c --checkpoint c
cmp text kept || fail "the data are not as they were"

# Memory: the number of ranks that is named fits, and one fewer does not.
refuses 2 'up to 4096 ranks none fits' train "${model[@]}" --context 8K --memory 1K
refuses 2 'ranks fit' train "${model[@]}" --context 8K --memory 16M
named=$(sed -nE 's/.*: ([0-9]+) ranks fit.*/\1/p' err)
((named >= 2)) || fail "--memory 16M: names $named ranks"
if ((${#ranks[@]} > 1 && named <= 5)); then
    must "$named" train "${model[@]}" --context 8K --memory 16M --steps 1 --log m.jsonl
    grep -o '"planned_peak_bytes":[0-9]*,"peak_bytes":[0-9]*' m.jsonl | tr -c '0-9\n' ' ' |
        awk '$2 > $1 || $1 > 16 * 1048576 { exit 1 }' || fail "holds more than planned, or than --memory"
    if ((named > 2)) && lm $((named - 1)) train "${model[@]}" --context 8K --memory 16M --steps 1; then
        fail "$((named - 1)) ranks fit"
    fi
fi

# A loss that is not finite stops the training; the checkpoint stays.
several=3 refuses 1 'the loss of step 2 is not finite: training stops, and the last checkpoint stays' \
    train "${model[@]}" --context 100 --steps 3 --rate 1e5 --warmup 0 --checkpoint c
[[ -e c ]] || fail "the checkpoint is gone"
