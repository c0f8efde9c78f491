# SPDX-License-Identifier: Apache-2.0
# A build without MPI that is asked for it.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
if "$binary" info | grep -qE '^MPI .*(Open MPI|MPICH)'; then skip 'this build has an MPI'; fi
tensors 8,2,4 8,2,4 8,2,4
run attend "${qkv[@]}" --output o.npy --transport mpi
run attend "${qkv[@]}" --output o.npy --transport mpi --ring 2
ls
