#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A process that is killed or stopped in mid-ring ends the job, within the deadline and some seconds; no output appears.
# shellcheck source=tests/mpi/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
deadline=3

# About a minute of work, which no rank gets to the end of.
tensors 24K,4,64
mkdir small
(cd small && tensors 500,2,16)
options=(--stats s.json --transport mpi --threads 1 --kernel generic --timeout "$deadline")
job=(attend "${qkv[@]}" --output o.npy --lse l.npy "${options[@]}")

# disturb SIGNAL RANK: to a rank in mid-ring.
disturb() {
    echo previous >o.npy
    rm -f -- *.partial # of a run that was killed: a new one is in mid-ring when it has made its own
    begin 3 "${job[@]}"
    until_in_mid_ring 3 o.npy 1
    local started
    started=$(milliseconds)
    kill "-$1" "${disturbed[$2]}"
    ended_within $(((deadline + 5) * 1000)) && fail "SIG$1 to rank $2: exit 0"
    echo "SIG$1 to rank $2: exit $(cat code) after $(($(milliseconds) - started)) ms"
    [[ $(cat o.npy) == previous ]] || fail "SIG$1 to rank $2: the previous output is gone"
    [[ ! -e l.npy && ! -e s.json ]] || fail "SIG$1 to rank $2: has written $(ls)"
}

# again: what was left under temporary names does not keep a new run from the same files.
again() {
    (cd small && over 3 attend "${qkv[@]}" --output ../o.npy --lse ../l.npy --stats ../s.json --transport mpi) ||
        fail "a new run: exit $?"
    quietly check --query small/q.npy --key small/k.npy --value small/v.npy --output o.npy --lse l.npy
    compgen -G '*.partial' >/dev/null && fail "left behind: $(ls)"
    rm -f l.npy s.json
}

# named: by the ranks that have waited.
named() {
    grep -qE "rank $1 has been silent for .*: hop [0-9]+ is given up" err || fail "rank $1 is not named"
}

killed=(1) stopped=(0)
if [[ -n ${RINGATTN_SLOW:-} ]]; then killed=(0 1 2) stopped=(0 1 2); fi
for rank in "${killed[@]}"; do
    disturb KILL "$rank"
    again
done
for rank in "${stopped[@]}"; do
    disturb STOP "$rank"
    named "$rank"
    again
done

# Gradients, in the forward pass that comes first: a process that failed says why, instead of waiting for the others.
job=(gradient "${qkv[@]}" --output-gradient v.npy --query-gradient o.npy --key-gradient l.npy "${options[@]}")
for signal in KILL STOP; do
    disturb $signal 1
    grep -q 'not all processes have come' err && fail "SIG$signal in a forward pass: waited for others"
done
named 1
