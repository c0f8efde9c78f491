# SPDX-License-Identifier: Apache-2.0
# The statistics: every field, and those numbers that do not depend on the machine.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
machine='s/("(compute|total|gflops|tiles|pairs_worked|[a-z_]*_bytes)": )[0-9.e+-]+/\1N/'
tensors 2,37,4,16 2,53,2,16 2,53,2,24
run attend "${qkv[@]}" --output o.npy --pattern causal --threads 1 --kernel generic --stats - | sed -E "$machine"
run attend "${qkv[@]}" --output o.npy --scale 2 --threads 1 --kernel generic --stats s.json
sed -E "$machine" s.json
ls
