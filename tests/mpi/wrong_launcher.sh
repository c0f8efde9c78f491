#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Started by the mpirun of another MPI, every process would believe itself alone: that is refused.
# shellcheck source=tests/mpi/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
if ! command -v mpirun.openmpi mpirun.mpich >/dev/null || ! command -v mpirun.mpich >/dev/null; then
    echo "there is one MPI only"
    exit 77
fi
if "$binary" info | grep -q 'Open MPI'; then
    mpirun=(mpirun.mpich)
else
    mpirun=(mpirun.openmpi --allow-run-as-root --oversubscribe)
fi
tensors 300,2,16
over 2 attend "${qkv[@]}" --output o.npy --lse l.npy --stats s.json --transport mpi
refused $? 'mpirun started 2 processes, but this program'"'"'s MPI'
grep -qF "use that MPI's mpirun, or rebuild" err || fail "does not say what to do"
