# SPDX-License-Identifier: Apache-2.0
# A signal stops the work; nothing is left behind. The problem would take far longer than the signal to arrive.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
npy q.npy '<f4' False '(60000, 8, 64)' $((60000 * 8 * 64 * 4))
ln q.npy k.npy
ln q.npy v.npy
for signal in INT TERM; do
    timeout --preserve-status --signal $signal 1 "$binary" attend "${qkv[@]}" --output o.npy --lse l.npy --stats s.json 2>&1
    echo "exit $?"
    ls
done
timeout --preserve-status --signal INT 0.5 "$binary" generate --shape 64G --seed 1 --output g.npy 2>&1
echo "exit $?"
ls

# A signal that was ignored when the command was started stays ignored.
made=(--query gen:1 --key gen:2 --value gen:3 --shape "1,8000,2,64" --threads 1 --kernel generic)
(
    trap '' HUP TERM
    exec "$binary" attend "${made[@]}" --output o.npy 2>../err
) &
for ((i = 0; i < 1000; i++)); do
    if [[ -e o.npy.partial ]]; then break; fi
    sleep 0.01
done
kill -TERM $!
kill -HUP $!
wait $!
echo "ignored: exit $?"
ls
