# SPDX-License-Identifier: Apache-2.0
# What is being written is left alone; what a killed run has left is replaced.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
tensors 8,2,4 8,2,4 8,2,4
echo previous | tee o.npy l.npy >s.json
outputs=(--output o.npy --lse l.npy --stats s.json)

# A run that would take far longer than this test; the statistics are the last file that it makes.
npy long.npy '<f4' False '(60000, 8, 64)' $((60000 * 8 * 64 * 4))
"$binary" attend --query long.npy --key long.npy --value long.npy "${outputs[@]}" 2>/dev/null &
for ((i = 0; i < 600; i++)); do
    if [[ -e s.json.partial ]]; then break; fi
    sleep 0.1
done
run attend "${qkv[@]}" "${outputs[@]}"
run attend "${qkv[@]}" --output new.npy --stats s.json
run show --pattern causal --length 5 --output o.npy
kill -KILL $!
wait $! 2>/dev/null
echo "exit $?"
cat o.npy l.npy s.json
rm long.npy
ls

quietly attend "${qkv[@]}" "${outputs[@]}"
ls
run check "${qkv[@]}" --output o.npy --lse l.npy | sed 's/error [0-9.e+-]*/error N/'
grep -c kernel s.json

# Nothing else that has the name is taken for a leftover.
echo previous >p.npy
ln -s p.npy o.npy.partial
run attend "${qkv[@]}" --output o.npy
rm o.npy.partial
mkdir s.json.partial
run attend "${qkv[@]}" --output o.npy --stats s.json
rmdir s.json.partial
cp q.npy o.npy.partial
run attend --query o.npy.partial --key k.npy --value v.npy --output o.npy
run attend "${qkv[@]}" --output o.npy.partial --lse o.npy
run attend "${qkv[@]}" --output o.npy --pattern documents:@./o.npy.partial
cmp q.npy o.npy.partial
cat p.npy
ls
