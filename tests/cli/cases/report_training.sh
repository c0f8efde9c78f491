# SPDX-License-Identifier: Apache-2.0
# Logs of trainings: what is said follows from their steps; lines without a loss are passed over, bad steps are named.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions
cp "$here/../report/training.jsonl" "$here/../report/results.jsonl" .
run report training.jsonl --format md | grep -vE '^\|'
sed -E 's/"wait":0.04/"wait":0.24/' training.jsonl >slow.jsonl
{
    head -n 5 training.jsonl
    echo '{"step":5,"loss":null}'
    echo '{"step":"six","tokens":1,"loss":1}'
    echo nonsense
    echo '{"note":"nothing"}'
    echo
} >bad.jsonl
run report slow.jsonl bad.jsonl --format md | grep -E '^(- |!|\$)'
run report training.jsonl --format csv
run report training.jsonl results.jsonl --format md
quietly report training.jsonl slow.jsonl -o page.html
grep -c 'training-' page.html
ls
