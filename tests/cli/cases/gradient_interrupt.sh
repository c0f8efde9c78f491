# SPDX-License-Identifier: Apache-2.0
# A signal stops a gradient, in the forward pass and in the backward pass; nothing is left behind. An input that changes
# during the run is noticed.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
npy q.npy '<f4' False '(60000, 8, 64)' $((60000 * 8 * 64 * 4))
for name in k v 'do' o; do ln q.npy $name.npy; done
given=("${qkv[@]}" --output-gradient do.npy)
results=(--query-gradient dq.npy --key-gradient dk.npy --value-gradient dv.npy)
stopped() {
    timeout --preserve-status --signal "$1" "$2" "$binary" gradient "${given[@]}" "${results[@]}" --stats s.json "${@:3}" 2>&1 |
        sed -E '/^ringattn [a-z]+: +[0-9]+%, /d'
    echo "exit ${PIPESTATUS[0]}"
    ls
}
stopped INT 1
stopped TERM 1

# All scores and values are 0: so is the output, and every log-sum-exp is log 60000.
printf '\x9a\x08\x30\x41' >../lse
for ((i = 0; i < 19; i++)); do
    cat ../lse ../lse >../twice
    mv ../twice ../lse
done
npy l.npy '<f4' False '(1, 8, 60000)' 0
head -c $((8 * 60000 * 4)) ../lse >>l.npy
stopped INT 2 --output o.npy --lse l.npy
rm q.npy k.npy v.npy do.npy o.npy l.npy

# An output gradient that is overwritten in place.
tensors 3000,2,64 3000,2,64 3000,2,64
quietly generate --shape 3000,2,64 --seed 4 --output do.npy
quietly generate --shape 3000,2,64 --seed 9 --output other.npy
echo previous | tee dq.npy dk.npy >dv.npy
"$binary" gradient "${given[@]}" "${results[@]}" --kernel generic --threads 1 2>../err &
for ((i = 0; i < 1000; i++)); do
    if [[ -e dv.npy.partial ]]; then break; fi
    sleep 0.01
done
sleep 0.2
dd if=other.npy of=do.npy bs=5000 skip=7 seek=7 count=1 conv=notrunc status=none
wait $!
echo "exit $?"
sed -E '/^ringattn [a-z]+: +[0-9]+%, /d; s/modified [0-9.]+/modified .../g; s/sample [0-9a-f]+/sample .../g' ../err
cat dq.npy dk.npy dv.npy
ls
