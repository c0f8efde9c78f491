# SPDX-License-Identifier: Apache-2.0
# Files that are not what they should be: refused before anything is written.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
tensors 8,2,4 8,2,4 8,2,4
try() { run attend --query "$1" --key k.npy --value v.npy --output o.npy; }
try nowhere.npy
mkdir folder
try folder
echo 'hello world' >text.npy
try text.npy
: >empty.npy
try empty.npy
head -c 100 q.npy >header.npy
try header.npy
head -c 300 q.npy >cut.npy
try cut.npy
npy more.npy '<f4' False '(8, 2, 400)' 256
try more.npy
npy overflow.npy '<f4' False '(4294967296, 4294967296, 4)' 256
try overflow.npy
npy extent.npy '<f4' False '(99999999999999999999, 2, 4)' 256
try extent.npy
npy negative.npy '<f4' False '(-8, 2, 4)' 256
try negative.npy
npy fortran.npy '<f4' True '(8, 2, 4)' 256
try fortran.npy
npy big.npy '>f4' False '(8, 2, 4)' 256
try big.npy
npy double.npy '<f8' False '(8, 2, 4)' 512
try double.npy
npy integer.npy '<i8' False '(8, 2, 4)' 512
try integer.npy
npy five.npy '<f4' False '(1, 1, 8, 2, 4)' 256
try five.npy
npy two.npy '<f4' False '(8, 8)' 256
try two.npy
npy none.npy '<f4' False '(8, 0, 4)' 0
try none.npy
npy vector.npy '<f4' False 'elephant' 256
try vector.npy
mkfifo pipe.npy
try pipe.npy
ls
