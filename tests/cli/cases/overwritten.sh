# SPDX-License-Identifier: Apache-2.0
# An input that is overwritten in place while the work goes on: noticed in the end, exit 1, and the old output stays.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
tensors 5000,2,64 5000,2,64 5000,2,64
cp v.npy whole.npy
quietly generate --shape 5000,2,64 --seed 9 --output other.npy
echo previous | tee o.npy >l.npy

# begun: waits until the output is there and ranks have compared their inputs.
begun() {
    local i
    for ((i = 0; i < 1000; i++)); do
        if [[ -e o.npy.partial ]]; then break; fi
        sleep 0.01
    done
    sleep 0.2
}

# overwrite OPTION...: some bytes in the middle of the values.
overwrite() {
    "$binary" attend "${qkv[@]}" --output o.npy --lse l.npy --kernel generic --threads 1 "$@" >../out 2>../err &
    begun
    dd if=other.npy of=v.npy bs=5000 skip=7 seek=7 count=1 conv=notrunc status=none
    wait $!
    printf '%s: exit %d\n' "$*" $?
    sed -E '/^ringattn [a-z]+: +[0-9]+%, /d; s/modified [0-9.]+/modified .../g; s/sample [0-9a-f]+/sample .../g' ../err
    cat o.npy l.npy
    ls
    cp whole.npy v.npy
}
overwrite --pattern full
overwrite --ring 4
overwrite --ring 2 --transport threads

# A bias is read all the time, as the tensors are.
quietly generate --shape 1,1,5000,5000 --seed 4 --output bias.npy
"$binary" attend "${qkv[@]}" --output o.npy --kernel generic --threads 1 --scores bias:@bias.npy >../out 2>../err &
begun
printf '\1\2\3\4' | dd of=bias.npy bs=1 seek=130 conv=notrunc status=none
wait $!
echo "bias: exit $?"
sed -E '/^ringattn [a-z]+: +[0-9]+%, /d; s/modified [0-9.]+/modified .../g; s/sample [0-9a-f]+/sample .../g' ../err
cat o.npy
rm bias.npy

# Replaced by another file of the same name: what was opened is read to its end.
"$binary" attend "${qkv[@]}" --output o.npy --kernel generic --threads 1 --ring 4 2>/dev/null &
begun
mv other.npy v.npy
wait $!
echo "replaced: exit $?"
run check --query q.npy --key k.npy --value whole.npy --output o.npy | sed 's/error [0-9.e+-]*/error N/'
