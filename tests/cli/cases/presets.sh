# SPDX-License-Identifier: Apache-2.0
# Presets are patterns by name; the pictures of the documentation are what the command draws.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions, $here and $qkv
for preset in longnet longnet-causal bigbird longformer sparse90; do
    # The long ones take their time.
    if [[ $preset != longnet* ]]; then
        quietly show --preset $preset --length 4096 --output $preset.svg
        cmp $preset.svg "$here/../../docs/patterns/$preset.svg" || echo "docs/patterns/$preset.svg: not what is drawn"
    fi
    run show --preset $preset --length 1024 | head -12
done
run show --preset bigbird --pattern causal --length 512 | tail -8
tensors 1,200,2,8 1,200,2,8 1,200,2,8
quietly attend "${qkv[@]}" --preset bigbird --pattern causal --output o.npy --stats s.json
grep '"pattern"' s.json
run check "${qkv[@]}" --preset bigbird --pattern causal --output o.npy | sed 's/error [0-9.e+-]*/error N/'

# Models: a pattern and the scores that go with it; what is given too applies as well.
run plan --kernel generic --threads 1 --length 1000 --heads 2 --dim 8 --preset gemma2-local | head -2
run plan --kernel generic --threads 1 --length 1000 --heads 2 --dim 8 --preset bloom --pattern window:9,0 --scores dropout:0.5 | head -2
run plan --kernel generic --threads 1 --length 1000 --heads 2 --dim 8 --preset bloom --scores alibi
run show --preset modernbert-local --length 256 | tail -3
quietly attend "${qkv[@]}" --preset bloom --output o.npy --stats s.json
grep -E '"(pattern|scores)"' s.json
run check "${qkv[@]}" --preset bloom --output o.npy | sed 's/error [0-9.e+-]*/error N/'
run check "${qkv[@]}" --preset llama --output o.npy | sed -E 's/[0-9.]+e[0-9+-]+/N/g; s/FAILED.*/FAILED/; s/error [0-9.]+/error N/'
