# SPDX-License-Identifier: Apache-2.0
# The same pictures in files.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
run show --pattern causal+window:5+documents:20,12 --length 32 --heads 4 --output a.svg
cat a.svg
run show --pattern '<&' --length 3 --output b.svg
run show --pattern documents:20000,12000 --length 32000 --output c.svg
cat c.svg
run show --pattern causal --length 5 --output d.png
od -A d -t x1z -N 33 d.png
run show --pattern window:1,0 --length 4 --heads 2 --output e.npy
od -A d -t x1z e.npy
run show --pattern causal --length 5 --output nowhere/f.svg
run show --pattern causal --length 5 --output nowhere/f.npy
mkdir folder.png
run show --pattern causal --length 5 --output folder.png
ls
