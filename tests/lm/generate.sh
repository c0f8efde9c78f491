#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# eval and generate: the same over ranks; a cache that was filled in other portions goes on with the same bytes.
# shellcheck source=tests/lm/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
must 1 train "${model[@]}" --context 200 --steps 60 --rate 0.01 --checkpoint c

must 1 eval --data text --checkpoint c
alone=$(sed -nE 's/.*: (.*) nats.*/\1/p' out)
[[ -n $alone ]] || fail "eval says: $(cat out)"
must 1 eval --data text --checkpoint c --context 150
grep -q ' bits a byte' out || fail "eval --context: $(cat out)"

# start N FILE: its first bytes, line ends at the end included.
start() {
    local bytes
    bytes=$(head -c "$1" "$2" && printf .)
    printf -v begun %s "${bytes%.}"
}

go_on=(generate --checkpoint c --temperature 0)
start 150 text
prompt=$begun
must 1 "${go_on[@]}" --prompt "$prompt" --length 40
mv out long
cmp -n 150 long text || fail "the prompt is not repeated"
(($(wc -c <long) == 191)) || fail "$(wc -c <long) bytes instead of 191"
start 170 long
must 1 "${go_on[@]}" --prompt "$begun" --length 20
cmp out long || fail "a longer prompt goes on otherwise"
must 1 generate --checkpoint c --prompt "line " --length 30 --seed 3
mv out drawn
must 1 generate --checkpoint c --prompt "line " --length 30 --seed 3
cmp out drawn || fail "the same seed gives another text"

((${#ranks[@]} > 1)) || exit 0
for r in 2 3; do # of 2 heads: the third rank has none
    must "$r" "${go_on[@]}" --prompt "$prompt" --length 40
    cmp out long || fail "$r ranks generate another text"
done
must 3 eval --data text --checkpoint c
sed -nE 's/.*: (.*) nats.*/\1/p' out | awk -v alone="$alone" '{ off = $1 / alone - 1; if (off > 1e-5 || off < -1e-5) exit 1 }' ||
    fail "3 ranks evaluate $(cat out), one $alone"
must 1 train "${model[@]}" --context 200 --steps 2 --pattern "dilated:64/1,128/2+causal" --checkpoint d
must 1 "${go_on[@]}" --checkpoint d --prompt "line 1" --length 10
lm 2 "${go_on[@]}" --checkpoint d --prompt "line 1" --length 10
code=$?
((code == 2)) || fail "dilated heads over ranks: exit $code"
grep -q 'generate in one process' err || fail "dilated heads over ranks: not said"
