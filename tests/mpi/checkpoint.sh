#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Processes that are killed again and again, one of them or all, go on from what they had saved, to the same bits. A
# signal saves first. Files that do not belong together are refused, and the previous output stays.
# shellcheck source=tests/mpi/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
RANDOM=${RINGATTN_SEED:-1}
kills=2
if [[ -n ${RINGATTN_SLOW:-} ]]; then kills=20; fi

tensors 6K,2,32
job=(attend "${qkv[@]}" --output o.npy --lse l.npy --transport mpi --threads 1 --kernel generic --timeout 20)
saved=(--checkpoint state --checkpoint-every 0)
echo previous >previous

# whole PROCESSES OPTION...: the same without a checkpoint, in whole.npy and whole_l.npy.
whole() {
    over "$1" "${job[@]}" "${@:2}" || fail "$*: exit $?"
    mv o.npy whole.npy
    mv l.npy whole_l.npy
    cp previous o.npy
}

# kept: the outputs are the previous ones.
kept() {
    if ! cmp -s previous o.npy || [[ -e l.npy ]]; then fail "$*: the previous output is gone"; fi
}

# kept_or_done: of a run that may have come to its end before it was disturbed.
kept_or_done() {
    if cmp -s whole.npy o.npy; then
        rm -f l.npy
        cp previous o.npy
    fi
    kept "$@"
}

# goes_on PROCESSES OPTION...: to its end, with the bits of the whole and nothing left behind.
goes_on() {
    over "$1" "${job[@]}" "${saved[@]}" "${@:2}" || fail "$*: exit $?"
    if ! cmp whole.npy o.npy || ! cmp whole_l.npy l.npy; then fail "$*: other bits"; fi
    compgen -G 'state*' >/dev/null && fail "$*: left behind: $(ls)"
    compgen -G '*.partial' >/dev/null && fail "$*: left behind: $(ls)"
    rm l.npy
    cp previous o.npy
}

# until_begun: there is a checkpoint, or the run has ended.
until_begun() {
    local i
    for ((i = 0; i < 500; i++)); do
        if [[ -e state || -e code ]]; then break; fi
        sleep 0.02
    done
}

# killed PROCESSES OPTION...: all processes with their mpirun, at any moment; or one of them, where something was saved:
# Open MPI's mpirun may wait for ever for one that was killed while it began.
killed() {
    local done=0 went_on=0 way victims
    whole "$@"
    while ((done < kills)); do
        begin "$1" "${job[@]}" "${saved[@]}" "${@:2}"
        way=$((RANDOM % 4))
        if ((way > 0)); then until_begun; fi
        sleep "0.$((RANDOM % 50 + 10))"
        if ((way > 1)); then victims=$(rank_process $((RANDOM % $1))); else victims=$(descendants "$run"); fi
        # shellcheck disable=SC2086 # several
        if [[ -n $victims ]] && kill -KILL $victims 2>/dev/null; then done=$((done + 1)); fi
        ended_within 20000
        kept_or_done "$*"
        if grep -q 'goes on from state' err; then went_on=$((went_on + 1)); fi
    done
    goes_on "$@"
    if grep -q 'goes on from state' err; then went_on=$((went_on + 1)); fi
    echo "$*: killed $done times, went on $went_on times"
}
{
    killed 2 --pattern causal
    killed 3 --order zigzag
    if [[ -n ${RINGATTN_SLOW:-} ]]; then
        killed 3 --strategy broadcast
        killed 3 --pattern window:2000,500 --order zigzag
        killed 2 --pattern dilated:500/1,2000/3
        killed 3 --pattern blocks:64:density=0.3 --order striped
    fi
} 2>/dev/null

# A signal to one rank: all save and stop, one speaks. There is no time to save but then.
tensors 12K,2,32
whole 3
begin 3 "${job[@]}" --checkpoint state --checkpoint-every 1000
victim=
until [[ -n $victim || -e code ]]; do victim=$(rank_process 1); done
until_begun
kill -INT "$victim"
ended_within 20000
code=$?
((code == 130)) || fail "SIGINT to rank 1: exit $code"
(($(grep -cF 'stopped (Interrupt): what was done is in state' err) == 1)) || fail "SIGINT to rank 1: not said once"
kept "SIGINT to rank 1"
for rank in 0 1 2; do
    (($(stat -c %s state.$rank) > 100000)) || fail "SIGINT to rank 1: rank $rank has not saved its rows"
done

# no CODE WORDS: the next run is refused by all, once, and changes nothing.
no() {
    local code before
    before=$(cat state* | cksum)
    over 3 "${job[@]}" "${saved[@]}" "${@:3}"
    code=$?
    ((code == $1)) || fail "exit $code instead of $1: $2"
    (($(grep -cF -- "$2" err) == 1)) || fail "not said once: $2"
    [[ $(cat state* | cksum) == "$before" ]] || fail "has changed the checkpoint: $2"
    kept "$2"
}
no 2 'it has "pattern: full (883b247c)", this one "pattern: causal' --pattern causal
if [[ -n ${RINGATTN_SLOW:-} ]]; then
    over 2 "${job[@]}" "${saved[@]}"
    (($? == 2)) || fail 'two processes go on from three'
    grep -qF 'it has "ring size: 3", this one "ring size: 2": remove state to begin anew' err || fail 'says not how many'
fi
mv state.1 kept
no 2 'state.1: is missing: state is the checkpoint of 3 ranks'
cp kept state.1
printf x | dd of=state.1 bs=1 seek=70000 conv=notrunc status=none
no 2 'state.1: is damaged: its checksum is'
mv kept state.1
cp state kept
printf x | dd of=state bs=1 seek=700 conv=notrunc status=none
no 2 'state: is damaged: its checksum is'
mv kept state
touch -r k.npy kept
touch -d '2001-02-03 04:05:06 UTC' k.npy
no 2 'it has "key: '
touch -r kept k.npy

# A signal to mpirun, which stops its ranks in its own way.
begin 3 "${job[@]}" --checkpoint state --checkpoint-every 1000
victim=
until [[ -n $victim || -e code ]]; do victim=$(pgrep -P "$run"); done
until [[ -e o.npy.partial || -e code ]]; do sleep 0.02; done
kill -INT "$victim"
ended_within 20000 && fail 'SIGINT to mpirun: exit 0'
grep -qF 'goes on from state' err || fail 'has not gone on'
kept_or_done 'SIGINT to mpirun'
goes_on 3
