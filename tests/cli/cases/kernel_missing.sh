# SPDX-License-Identifier: Apache-2.0
# A kernel that this processor lacks.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
if "$binary" info | grep -q '^kernels.*avx512'; then skip 'this processor has every kernel'; fi
tensors 8,2,4 8,2,4 8,2,4
run attend "${qkv[@]}" --output o.npy --kernel avx512 | sed 's/it can run.*/it can run .../'
RA_KERNEL=avx512 run attend "${qkv[@]}" --output o.npy | sed 's/it can run.*/it can run .../'
ls
