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
