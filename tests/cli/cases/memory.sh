# More than there is: refused before the work, nothing written. The files are sparse.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
if instrumented; then skip 'sanitizers need more address space than the limit leaves'; fi
for name in q k v; do npy $name.npy '<f4' False '(1000, 500000, 8, 64)' $((1000 * 500000 * 8 * 64 * 4)); done
run attend "${qkv[@]}" --output o.npy | sed 's/has [0-9.]*/has N/'
for name in q k v; do npy $name.npy '<f4' False '(100000, 8, 64)' $((100000 * 8 * 64 * 4)); done
ulimit -v 500000
run attend "${qkv[@]}" --output o.npy
# Keys and values pass by a block at a time: neither their length nor their heads matter.
run check "${qkv[@]}" --output q.npy --rows 4
for name in q k v; do npy $name.npy '<f4' False '(2000000, 1, 64)' $((2000000 * 64 * 4)); done
run check "${qkv[@]}" --output q.npy --rows 4
ls
