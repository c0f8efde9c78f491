#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Losses do not depend on the number of ranks, the order or the strategy; the same ranks give the same bits.
# shellcheck source=tests/lm/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
training=(train "${model[@]}" --layers 1 --context 333 --batch 2 --steps 50 --warmup 5)

must 1 "${training[@]}" --log alone.jsonl
[[ $(losses alone.jsonl | wc -l) == 50 && $(grep -c loss alone.jsonl) == 50 ]] || fail "alone.jsonl has not 50 losses"
losses alone.jsonl >alone

# Threads: the same bits.
must 1 "${training[@]}" --steps 5 --log one.jsonl
must 1 "${training[@]}" --steps 5 --threads 3 --log three.jsonl
lasting three.jsonl | sed -E 's/"(planned_)?peak_bytes":[0-9]*//g' |
    cmp - <(lasting one.jsonl | sed -E 's/"(planned_)?peak_bytes":[0-9]*//g') || fail "3 threads: other bits than one"

# agrees LOG WHAT: to 1e-5 in the first 10 steps, to 1e-4 in all.
agrees() {
    losses "$1" | paste alone - | awk -v what="$2" '
        { off = ($1 - $2) / $1; off = off < 0 ? -off : off; if (off > most) most = off }
        NR <= 10 && off > 1e-5 || !(off <= 1e-4) { print what ": step " NR ": " $1 " and " $2; bad = 1 }
        END { if (NR != 50) { print what ": " NR " steps"; bad = 1 }; print what ": " most; exit bad }' || fail "$2"
}

for r in "${ranks[@]}"; do
    must "$r" "${training[@]}" --log ring.jsonl
    agrees ring.jsonl "$r ranks"
done
lasting ring.jsonl >first
must "$r" "${training[@]}" --log again.jsonl
lasting again.jsonl | cmp - first || fail "two runs of $r ranks differ"
((r > 1)) || exit 0

# With broadcast: the same bits for any number of ranks and any order, of losses and of weights.
whatever=("${training[@]}" --strategy broadcast)
must 1 "${whatever[@]}" --log b.jsonl --checkpoint whole
losses b.jsonl >first
for spread in "2 zigzag" "3 striped" "3 zigzag" "4 contiguous"; do
    rm -f c
    must "${spread% *}" "${whatever[@]}" --order "${spread#* }" --log b.jsonl --checkpoint c
    losses b.jsonl | cmp - first || fail "broadcast, $spread: other losses than one rank"
    cmp <(weights c b.jsonl) <(weights whole b.jsonl) || fail "broadcast, $spread: other weights than one rank"
done
agrees b.jsonl "4 ranks, broadcast, contiguous"

# A sequence whose stretches are longer than the smallest parts of ranks.
whatever=(train "${model[@]}" --layers 1 --context 2500 --steps 4 --strategy broadcast)
rm -f c whole
seq 3000 >long
must 1 "${whatever[@]}" --data long --log b.jsonl --checkpoint whole
must 3 "${whatever[@]}" --data long --log b.jsonl --checkpoint c
cmp <(weights c b.jsonl) <(weights whole b.jsonl) || fail "broadcast, long stretches: other weights than one rank"
must 2 "${training[@]}" --log g.jsonl --strategy allgather --order contiguous
agrees g.jsonl "2 ranks, allgather, contiguous"
must 2 "${training[@]}" --log d.jsonl --pattern "dilated:64/1,256/2+causal"
must 1 "${training[@]}" --log e.jsonl --pattern "dilated:64/1,256/2+causal"
losses e.jsonl >alone
agrees d.jsonl "2 ranks, dilated"
