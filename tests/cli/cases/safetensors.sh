# SPDX-License-Identifier: Apache-2.0
# .safetensors files: dtypes, names, several tensors in a file, and files that are not what they should be.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
st=(--query q.safetensors --key k.safetensors --value v.safetensors)
header() { head -c 128 "$1" | tail -c +9 | sed 's/ *$//'; }
elements() { tail -c +129 "$1"; }
made() {
    quietly generate --shape "$1" --seed 1 --output q.safetensors --dtype "$2"
    quietly generate --shape "$1" --seed 2 --output k.safetensors#key --dtype "$2"
    quietly generate --shape "$1" --seed 3 --output v.safetensors#a/b#c --dtype "$2"
}
both() {
    run attend "${st[@]}" --output o.safetensors --lse l.safetensors "$@"
    run check "${st[@]}" --output o.safetensors --lse l.safetensors | sed 's/\(error\|tolerance\) [0-9.e+-]*/\1 N/g'
    header o.safetensors && echo
    header l.safetensors && echo
}
run generate --shape 3,5 --seed 1 --dtype bfloat16 --output a.safetensors#some/name
od -A d -t x1z -N 128 a.safetensors
od -A d -t x2 -j 128 a.safetensors
rm a.safetensors
for dtype in float32 f16 bf16; do
    made 2,37,4,16 $dtype
    both
done
both --ring 3 --output-dtype float32
both --ring 2 --transport threads --output-dtype f16
run attend "${st[@]}" --output o.safetensors#x --lse l.safetensors#y --layout bhsd --output-dtype f32
run check "${st[@]}" --output o.safetensors#x --lse l.safetensors#y --layout bhsd | sed 's/\(error\|tolerance\) [0-9.e+-]*/\1 N/g'
header o.safetensors && echo
header l.safetensors && echo

# The same bits as in .npy files, and both kinds in one run.
tensors 37,4,16 37,4,16 37,4,16 --dtype float16
made 37,4,16 f16
for name in q k v; do cmp <(elements $name.npy) <(elements $name.safetensors); done
quietly attend "${qkv[@]}" --output o.npy
quietly attend --query q.npy --key k.safetensors#key --value v.npy --output o.safetensors
cmp <(elements o.npy) <(elements o.safetensors)

# Several tensors in one file, and lengths of documents.
{
    offsets() { printf '{"dtype":"F16","shape":[37,4,16],"data_offsets":[%d,%d]}' $(($1 * 4736)) $((($1 + 1) * 4736)); }
    text="{\"v\":$(offsets 2),\"q\":$(offsets 0),\"k\":$(offsets 1),"
    safetensors all.safetensors "$text\"__metadata__\":{\"format\":\"pt\"}}" 0
    for name in q k v; do elements $name.npy >>all.safetensors; done
}
all=(--query all.safetensors#q --key all.safetensors#k --value all.safetensors#v)
quietly attend "${all[@]}" --output two.safetensors
cmp o.safetensors two.safetensors
safetensors lengths.safetensors '{"lengths":{"dtype":"I64","shape":[2],"data_offsets":[0,16]}}' 0
printf '\x07\0\0\0\0\0\0\0\x1e\0\0\0\0\0\0\0' >>lengths.safetensors
quietly attend "${qkv[@]}" --output o.npy --pattern documents:7,30
quietly attend "${qkv[@]}" --output two.npy --pattern documents:@lengths.safetensors#lengths
cmp o.npy two.npy
rm o.* two.* l.*

# Names, dtypes and files that cannot be.
run attend --query all.safetensors --key all.safetensors#k --value all.safetensors#v --output o.npy
run attend --query all.safetensors#Q --key all.safetensors#k --value all.safetensors#v --output o.npy
run attend --query all.safetensors# --key all.safetensors#k --value all.safetensors#v --output o.npy
run attend --query q.npy#q --key k.npy --value v.npy --output o.npy
run attend "${all[@]}" --output all.safetensors#o
run attend "${all[@]}" --output o.safetensors#o --lse ./o.safetensors#l
run attend "${all[@]}" --output o.safetensors --stats o.safetensors.partial
run attend "${qkv[@]}" --output lengths.safetensors#o --pattern documents:@lengths.safetensors#lengths
run attend "${all[@]}" --output o.safetensors#
run attend "${all[@]}" --output o.safetensors#__metadata__
run attend "${all[@]}" --output o.npy --output-dtype bf16
run attend "${all[@]}" --output o.npy --output-dtype int64
made 8,2,4 bf16
run attend "${st[@]}" --output o.npy
quietly attend "${st[@]}" --output o.npy --output-dtype f32
rm o.npy
try() { run attend --query "$1" --key k.safetensors --value v.safetensors --output o.safetensors; }
tensor='{"dtype":"F32","shape":[8,2,4],"data_offsets":[0,256]}'
echo 'hello world' >text.safetensors
try text.safetensors
: >empty.safetensors
try empty.safetensors
head -c 100 q.safetensors >header.safetensors
try header.safetensors
head -c 200 q.safetensors >cut.safetensors
try cut.safetensors
safetensors longer.safetensors "{\"q\":$tensor}" 257
try longer.safetensors
safetensors twice.safetensors "{\"q\":$tensor,\"q\":$tensor}" 256
try twice.safetensors
safetensors overlap.safetensors "{\"q\":$tensor,\"k\":$tensor}" 256
try overlap.safetensors#q
safetensors dtype.safetensors '{"q":{"dtype":"F16","shape":[8,2,4],"data_offsets":[0,256]}}' 256
try dtype.safetensors
safetensors double.safetensors '{"q":{"dtype":"F64","shape":[8,2,4],"data_offsets":[0,512]}}' 512
try double.safetensors
safetensors integer.safetensors '{"q":{"dtype":"I64","shape":[8,2,4],"data_offsets":[0,512]}}' 512
try integer.safetensors
safetensors none.safetensors '{"q":{"dtype":"F32","shape":[8,0,4],"data_offsets":[0,0]}}' 0
try none.safetensors
safetensors json.safetensors '{"q":' 0
try json.safetensors
try nowhere.safetensors#q
ls
