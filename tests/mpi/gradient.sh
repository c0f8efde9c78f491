#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gradient over processes: the oracle agrees, broadcast has the bits of a run in one piece, scratch files are gone.
# shellcheck source=tests/mpi/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

results=(--query-gradient dq.npy --key-gradient dk.npy --value-gradient dv.npy)

# with PROCESSES OPTION...: a run, which must succeed and leave nothing but its results.
with() {
    over "$1" gradient "${given[@]}" "${results[@]}" --stats s.json --transport mpi "${@:2}" || fail "$*: exit $?"
    (($(grep -c '"rank": ' s.json) == $1)) || fail "$*: not as many ranks in the statistics"
    grep -q '"direction": "backward"' s.json || fail "$*: another direction in the statistics"
    compgen -G '*.partial' >/dev/null && fail "left behind: $(ls)"
    quietly check "${given[@]}" "${results[@]}"
}

tensors 2,300,4,16
quietly generate --shape 2,300,4,16 --seed 4 --output do.npy
given=("${qkv[@]}" --output-gradient do.npy --pattern causal)
quietly gradient "${given[@]}" "${results[@]}"
mkdir whole
mv dq.npy dk.npy dv.npy whole
for processes in 1 2 4; do
    with $processes --strategy broadcast
    for name in dq dk dv; do cmp $name.npy whole/$name.npy || fail "$processes processes: other bits of $name"; done
done
with 3 --order zigzag
with 2 --strategy allgather

# With the results of attend, which have the bits of the pass that is run first.
mv dq.npy dk.npy dv.npy whole
over 2 attend "${qkv[@]}" --pattern causal --output o.npy --lse l.npy --transport mpi --strategy allgather || fail "attend: exit $?"
with 2 --strategy allgather --output o.npy --lse l.npy
for name in dq dk dv; do cmp $name.npy whole/$name.npy || fail "with results given: other bits of $name"; done

# Scores: from one output and lse, the gradients of their arrays have the bits of a run in one piece.
quietly generate --shape 4 --seed 5 --output slopes.npy --distribution uniform
quietly generate --shape 4 --seed 6 --output sinks.npy
quietly generate --shape 1,41 --seed 7 --output table.npy
quietly generate --shape 2,1,300,300 --seed 8 --output bias.npy
causal=("${given[@]}")
scores=(--pattern causal --scores relative:@table.npy+softcap:9+bias:@bias.npy+alibi:@slopes.npy+sinks:@sinks.npy+dropout:0.1)
quietly attend "${qkv[@]}" "${scores[@]}" --output scored.npy --lse scored_lse.npy
given=("${qkv[@]}" "${scores[@]}" --output-gradient do.npy --output scored.npy --lse scored_lse.npy)
quietly gradient "${given[@]}" "${results[@]}" --scores-gradient whole.safetensors
for strategy in broadcast ring allgather; do
    with 3 --strategy $strategy --order striped --scores-gradient ds.safetensors
    cmp ds.safetensors whole.safetensors || fail "$strategy: other bits of the gradients of scores"
done
given=("${causal[@]}")

# Results of another forward pass are refused by the first process, and nothing is written.
rm dq.npy dk.npy dv.npy
over 2 gradient "${qkv[@]}" --output-gradient do.npy --output o.npy --lse l.npy "${results[@]}" --transport mpi &&
    fail 'another pattern was not noticed'
grep -q 'not of this forward pass' err || fail "not said why: $(cat err)"
compgen -G 'd[qkv].npy*' >/dev/null && fail "has written: $(ls)"

# Gradients that are kept nowhere: scratch files are in TMPDIR, and gone.
mkdir temporary
export TMPDIR=$PWD/temporary
made=(gradient --query gen:1 --key gen:2 --value gen:3 --shape "2,300,4,16" --pattern causal --output-gradient gen:4
    --query-gradient null --key-gradient null --value-gradient null)
quietly "${made[@]}"
cp out one
over 3 "${made[@]}" --transport mpi --strategy broadcast || fail "null: exit $?"
diff one out || fail 'null: other checksums, or other errors'
compgen -G 'temporary/*.partial' >/dev/null && fail "left behind: $(ls temporary)"
exit 0
