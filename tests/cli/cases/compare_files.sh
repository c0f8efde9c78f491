# SPDX-License-Identifier: Apache-2.0
# Two files of benchmark rows: what changed beyond the noise, and the exit code that says so.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions
cp "$here/../report/results.jsonl" old.jsonl
run bench --compare old.jsonl old.jsonl
# Much slower, faster, wrong, and gone.
sed -E '/"8192 d64 causal"/ s/"median":([0-9.]+),"low":([0-9.]+),"high":([0-9.]+)/"median":9\1,"low":9\2,"high":9\3/
    /"blocks:64 density 0.1"/ s/"median":[0-9.]+,"low":[0-9.]+,"high":[0-9.]+/"median":0.01,"low":0.01,"high":0.01/
    /"1024 d64 full"/ s/"status":"ok"/"status":"failed"/
    /"8192 d64 full GQA/ d' old.jsonl >new.jsonl
run bench --compare old.jsonl new.jsonl
run bench --threshold 100000 --compare old.jsonl new.jsonl
run bench --compare old.jsonl
run bench --compare old.jsonl new.jsonl more.jsonl
run bench --compare old.jsonl nowhere.jsonl
run bench --compare old.jsonl new.jsonl --threshold -1
run bench --compare --help
