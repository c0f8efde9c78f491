#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# kill -9 at any moment, then the same command: log and weights end as if nothing had happened. It may go on with other
# ranks, and a damaged checkpoint is refused.
# shellcheck source=tests/lm/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
training=(train "${model[@]}" --context 400 --steps 90)

# killed RANKS LOG TIMES: kills a process of the training in mid-run, so often, and then lets it end.
killed() {
    local i pid
    for ((i = 0; i < $3; i++)); do
        if (($1 == 1)); then
            "$binary" "${training[@]}" --checkpoint c --log "$2" >out 2>err &
            pid=$!
            run=$pid
        else
            begin "$1" "${training[@]}" --checkpoint c --log "$2"
            until pid=$(rank_process $((i % $1))) && [[ -n $pid ]]; do sleep 0.02; done
            disturbed+=("$pid")
        fi
        local lines=$((10 + 30 * i)) tries
        for ((tries = 0; tries < 1000; tries++)); do
            if [[ -e $2 ]] && (($(wc -l <"$2") > lines)); then break; fi
            sleep 0.02
        done
        kill -KILL "$pid"
        wait "$run" 2>/dev/null
        (($(wc -l <"$2") <= 90)) || fail "had ended before it was killed"
    done
    must "$1" "${training[@]}" --checkpoint c --log "$2"
    grep -q 'goes on after step [1-9]' err || fail "has begun anew"
}

for r in "${ranks[@]:0:3}"; do
    if ((r == 2)); then continue; fi
    rm -f whole whole.jsonl
    must "$r" "${training[@]}" --checkpoint whole --log whole.jsonl
    killed "$r" killed.jsonl $((r == 1 ? 2 : 1))
    lasting killed.jsonl | cmp - <(lasting whole.jsonl) || fail "$r ranks: the log differs"
    cmp <(weights c killed.jsonl) <(weights whole whole.jsonl) || fail "$r ranks: the weights differ"
    must "$r" "${training[@]}" --checkpoint c --log killed.jsonl
    lasting killed.jsonl | cmp - <(lasting whole.jsonl) || fail "$r ranks: a training that has ended goes on"
    rm c killed.jsonl
done
[[ ! -e c.partial ]] || fail "c.partial is left"

# With other ranks.
if ((${#ranks[@]} > 1)); then
    "$binary" "${training[@]}" --checkpoint c --log killed.jsonl >out 2>err &
    until [[ -e c ]]; do sleep 0.02; done
    kill -KILL $!
    wait $! 2>/dev/null
    must 2 "${training[@]}" --checkpoint c --log killed.jsonl
    paste <(losses killed.jsonl) <(losses whole.jsonl) | awk '
        { off = ($1 - $2) / $1 } off > 1e-4 || off < -1e-4 { exit 1 } END { if (NR != 90) exit 1 }' ||
        fail "losses of another number of ranks differ"
fi

# refused WORDS ARGS...
refused_for() {
    lm 1 "${@:2}"
    local code=$?
    ((code == 2)) || fail "$1: exit $code instead of 2"
    grep -q -- "$1" err || fail "said nothing like '$1'"
}
cp whole damaged
printf X | dd of=damaged bs=1 seek=3000 conv=notrunc 2>dd.err
refused_for 'is damaged' "${training[@]}" --checkpoint damaged
head -c 5000 whole >damaged
refused_for 'is damaged' "${training[@]}" --checkpoint damaged
echo text >damaged
refused_for 'is no checkpoint of a model' "${training[@]}" --checkpoint damaged
refused_for 'is damaged' eval --data text --checkpoint <(head -c 9000 whole)
refused_for '--embed is 36 there and 32 here' "${training[@]}" --checkpoint whole --embed 32
refused_for '--steps is 90 there and 91 here' "${training[@]}" --checkpoint whole --steps 91
echo more >>text
refused_for 'the size of --data is' "${training[@]}" --checkpoint whole
