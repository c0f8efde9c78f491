# SPDX-License-Identifier: Apache-2.0
# Gradients over ranks, from and to files: every strategy, transport and order, a budget, with the forward pass before and
# without it.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
unseen() { sed -e 's/error [0-9.e+-]*/error N/' -e 's/tolerance [0-9.e+-]*/tolerance N/' -e 's/checksum [0-9a-f]\{16\} /checksum N /'; }
results=(--query-gradient dq.npy --key-gradient dk.npy --value-gradient dv.npy)
tensors 2,150,4,16 2,170,2,16 2,170,2,24
quietly generate --shape 2,150,4,24 --seed 4 --output do.npy
quietly generate --shape 2,4,150 --seed 5 --output dl.npy
given=("${qkv[@]}" --output-gradient do.npy --lse-gradient dl.npy)

# spread OPTION...: the forward pass is run first, or attend has run it with the same options: the same bits.
spread() {
    quietly gradient "${given[@]}" "${results[@]}" "$@"
    for name in dq dk dv; do mv $name.npy first_$name.npy; done
    quietly attend "${qkv[@]}" --output o.npy --lse l.npy "$@"
    quietly gradient "${given[@]}" --output o.npy --lse l.npy "${results[@]}" "$@"
    for name in dq dk dv; do cmp $name.npy first_$name.npy; done
    "$binary" check "${given[@]}" --output o.npy --lse l.npy "${results[@]}" --pattern causal >../out || cat ../out
}
quietly gradient "${given[@]}" "${results[@]}" --pattern causal
mkdir whole
mv dq.npy dk.npy dv.npy whole
for transport in sim threads; do
    for order in contiguous zigzag striped; do
        for strategy in ring allgather broadcast; do
            spread --ring 3 --transport $transport --order $order --strategy $strategy --pattern causal
            if [[ $strategy == broadcast ]]; then for name in dq dk dv; do cmp $name.npy whole/$name.npy; done; fi
        done
    done
done
rm -f ./first_* o.npy l.npy dq.npy dk.npy dv.npy
ls

# Any of the three, and none of them in a file.
run gradient "${given[@]}" --pattern causal --ring 2 --key-gradient dk.npy
run check "${given[@]}" --pattern causal --key-gradient dk.npy | unseen
run gradient "${given[@]}" --pattern causal --ring 2 --query-gradient null --value-gradient null --rows 7 | unseen
made=(--query gen:1 --key gen:2 --value gen:3 --shape "300,4,16" --output-gradient gen:4 --query-gradient null
    --key-gradient null --value-gradient null --rows 3)
checksums() { "$binary" gradient "${made[@]}" "$@" 2>&1 | grep checksum; }
one=$(checksums)
for ring in 1 2 5; do
    [[ $(checksums --ring $ring --strategy broadcast) == "$one" ]] || echo "ring $ring: other checksums"
done
[[ $(checksums --ring 3 --strategy broadcast --transport threads) == "$one" ]] || echo 'threads: other checksums'
[[ $(checksums --dtype bf16) == "$(checksums --dtype bf16 --ring 3 --strategy broadcast)" ]] || echo 'bf16: other checksums'

# Statistics.
machine='s/("(compute|total|forward|wait|io|hops|bytes_sent|bytes_received|gflops|tiles|pairs_worked|[a-z_]*_bytes|largest_error|tolerance)": )[0-9.e+-]+/\1N/; s/: "[0-9a-f]{16}"/: "N"/'
run gradient "${made[@]}" --ring 2 --stats - --kernel generic --threads 1 | sed -E "$machine"

# A budget; the scratch files of the forward pass are gone afterwards, also after a signal.
tensors 6000,4,32 6000,4,32 6000,4,32
quietly generate --shape 6000,4,32 --seed 4 --output do.npy
given=("${qkv[@]}" --output-gradient do.npy --pattern "causal+window:500,0")
run gradient "${given[@]}" "${results[@]}" --memory 1000 | sed -E 's/(needs|process,|is) [0-9.]+ [KM]iB/\1 N/g; s/\([0-9]+ bytes\)/(N bytes)/; s/ring of [0-9]+/ring of N/g'
quietly gradient "${given[@]}" "${results[@]}" --memory 12MiB --strategy broadcast
run check "${given[@]}" "${results[@]}" | unseen
ls
npy q.npy '<f4' False '(60000, 8, 64)' $((60000 * 8 * 64 * 4))
for name in k v 'do'; do ln -f q.npy $name.npy; done
timeout --preserve-status --signal INT 2 "$binary" gradient "${qkv[@]}" --output-gradient do.npy "${results[@]}" --ring 4 2>&1 |
    sed -E '/^ringattn [a-z]+: +[0-9]+%, /d'
echo "exit ${PIPESTATUS[0]}"
ls

# Refused.
run gradient "${given[@]}" "${results[@]}" --order zigzag
run gradient "${given[@]}" "${results[@]}" --ring 2 --timeout 0
run gradient "${given[@]}" "${results[@]}" --ring 2 --checkpoint c
ls
