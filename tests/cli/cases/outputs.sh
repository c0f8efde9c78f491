# SPDX-License-Identifier: Apache-2.0
# Whatever fails, no output appears and the previous one stays as it was.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
tensors 8,2,4 8,2,4 8,2,4
echo previous | tee o.npy >l.npy
attempt() {
    run attend "${qkv[@]}" "$@"
    cat o.npy l.npy
    ls
}
attempt --output nowhere/o.npy
attempt --output q.npy
attempt --output ./v.npy
attempt --output o.npy --lse o.npy
attempt --output new.npy --lse ../case/new.npy
attempt --output o.npy --lse nowhere/l.npy
attempt --output o.npy --lse l.npy --stats nowhere/s.json
attempt --output o.npy --stats o.npy
attempt --output o.npy --lse l.npy --stats /dev/full
attempt --output /proc/o.npy
attempt --output .
attempt --output /dev/null
attempt --output o.npy --pattern nonsense

# Nor when it is standard output that fails, or a limit on the size of files.
{ "$binary" attend "${qkv[@]}" --output o.npy --lse l.npy --stats - >/dev/full; } 2>&1
echo "exit $?"
cat o.npy l.npy
{ "$binary" --help >/dev/full; } 2>&1
echo "exit $?"
(
    ulimit -f 64
    run generate --shape 1M --seed 1 --output large.npy
)
ls

# In the end it works, and only then are they replaced.
quietly attend "${qkv[@]}" --output o.npy --lse l.npy
ls
run check "${qkv[@]}" --output o.npy --lse l.npy | sed 's/error [0-9.e+-]*/error N/'
