# SPDX-License-Identifier: Apache-2.0
# --output null: nothing is written, but the checksum is that of the output, whoever computed it.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
made=(--query gen:1 --key gen:2 --value gen:3 --shape "2,150,4,16" --kv-shape "2,170,2,16" --pattern causal)
# unseen: without the figures that depend on the kernel.
unseen() { sed -e 's/error [0-9.e+-]*/error N/' -e 's/checksum [0-9a-f]\{16\} /checksum N /'; }

run attend "${made[@]}" --output null --lse null | unseen
run attend "${made[@]}" --output null --lse l.npy --rows 5 | unseen
run attend "${made[@]}" --output null --rows 0 | unseen
run attend "${made[@]}" --output null --rows 1000000 --dtype float16 | unseen
run attend "${made[@]}" --output null --dtype bfloat16 --output-dtype f16 --tiles hilbert | unseen
ls

# checksum OPTION...: one line for each way to the same bits.
checksum() { "$binary" attend "${made[@]}" --output null --rows 3 "$@" | grep checksum; }
one=$(checksum)
for transport in sim threads; do
    for order in contiguous zigzag striped; do
        for ring in 1 2 5; do
            for strategy in broadcast allgather; do
                where=(--ring "$ring" --transport "$transport" --order "$order" --strategy "$strategy")
                [[ $(checksum "${where[@]}") == "$one" ]] || echo "${where[*]}: another checksum"
            done
        done
    done
done
[[ $(checksum --output-dtype bf16) == "$(checksum --output-dtype bf16 --ring 3 --strategy broadcast)" ]] ||
    echo 'bfloat16: another checksum'
[[ $(checksum --ring 3) == "$(checksum --ring 3 --transport threads)" ]] || echo 'threads: another checksum'
[[ $(checksum --threads 1) == "$one" ]] || echo 'one thread: another checksum'
[[ $(checksum --scale 0.3) != "$one" ]] || echo 'another scale, the same checksum'

# Files in, nothing out.
tensors 2,150,4,16 2,170,2,16 2,170,2,16
[[ $("$binary" attend "${qkv[@]}" --output null --pattern causal | grep checksum) == "$one" ]] ||
    echo 'files: another checksum'
ls

# In the statistics; where those are on standard output, nothing else is.
fields() { sed -n '/^  "\(output\|lse\)"/,/^  }/p' "$1" | sed -e 's/\("largest_error": \).*,/\1N,/' -e 's/: "[0-9a-f]\{16\}"/: "N"/'; }
quietly attend "${made[@]}" --output null --lse null --stats s.json --ring 2 --strategy broadcast
fields s.json
[[ $one == *$(sed -n '/^  "output"/,/^  }/s/.*"checksum": "\(.*\)",/\1/p' s.json)* ]] || echo 'statistics: another checksum'
quietly attend "${made[@]}" --output null --stats - --rows 2
head -1 ../out
fields ../out

# Rows that are out of tolerance, and options that need rows.
run attend "${made[@]}" --output null --tolerance 0 --stats t.json | unseen | sed 's/batch .*query [0-9]*/batch N/'
run attend "${made[@]}" --output o.npy --rows 5
run attend "${made[@]}" --output o.npy --tolerance 1
run attend "${made[@]}" --output null --rows -1
run attend "${made[@]}" --output null --lse s.json --stats s.json
ls
