#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An input that is overwritten in place while ranks work: all of them end with exit 1, and there is no output.
# shellcheck source=tests/mpi/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
tensors 20000,2,64
quietly generate --shape 20000,2,64 --seed 9 --output other.npy
begin 2 attend "${qkv[@]}" --output o.npy --lse l.npy --transport mpi --threads 1 --kernel generic
until_in_mid_ring 2 o.npy 0.5
dd if=other.npy of=v.npy bs=5000 skip=7 seek=7 count=1 conv=notrunc status=none
ended_within 120000
code=$?
((code == 1)) || fail "exit $code instead of 1"
grep -qF 'v.npy: was changed during the run' err || fail 'not said'
(($(grep -c 'was changed' err) == 1)) || fail 'said more than once'
compgen -G '[ols].*' >/dev/null && fail "has written: $(ls)"
exit 0
