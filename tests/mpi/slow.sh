#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A rank that has a quarter of the time is slow, not silent: a short deadline does not end a run that takes far longer.
# shellcheck source=tests/mpi/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
deadline=2
tensors 14K,2,64
begin 2 attend "${qkv[@]}" --output o.npy --transport mpi --threads 1 --kernel generic --timeout $deadline
until_in_mid_ring 2 o.npy 0
started=$(milliseconds)

# Both away at the same time, as when a job is stopped and continued: neither can blame the other.
kill -STOP "${disturbed[@]}"
sleep $((deadline + 1))
kill -CONT "${disturbed[@]}"

while [[ ! -e code ]]; do
    kill -STOP "${disturbed[1]}" 2>/dev/null
    sleep 0.15
    kill -CONT "${disturbed[1]}" 2>/dev/null
    sleep 0.05
    if (($(milliseconds) - started > 120000)); then fail "has not ended within two minutes"; fi
done
took=$(($(milliseconds) - started))
ended_within 1000 || fail "exit $(cat code) after $took ms"
echo "rank 1 at a quarter of its speed: $took ms"
((took > (2 * deadline + 1) * 1000)) || fail "took $took ms only: no longer than the deadline"
quietly check "${qkv[@]}" --output o.npy

# Steps are longer than the deadline, and a rank that is done early waits for the others at the end of the run, for longer than the deadline.
deadline=1
tensors 18K,2,64
started=$(milliseconds)
over 3 attend "${qkv[@]}" --output o.npy --pattern causal --order contiguous --stats s.json --transport mpi --threads 1 \
    --kernel generic --timeout $deadline || fail "rank 0 waits at the end: exit $?"
echo "rank 0 waits at the end: $(($(milliseconds) - started)) ms"
