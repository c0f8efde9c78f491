# More than there is: refused before the work, nothing written. The files are sparse.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
if instrumented; then skip 'sanitizers need more address space than the limit leaves'; fi
for name in q k v; do npy $name.npy '<f4' False '(400000, 8, 64)' $((400000 * 8 * 64 * 4)); done
ulimit -v 2000000
run attend "${qkv[@]}" --output o.npy
run check "${qkv[@]}" --output q.npy
ls
