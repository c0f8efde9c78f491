#!/usr/bin/env bash
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
