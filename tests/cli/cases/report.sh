# SPDX-License-Identifier: Apache-2.0
# Benchmark rows as Markdown and as a flat table; what the sentences say follows from the rows.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions
cp "$here/../report/results.jsonl" .
run report results.jsonl --format md
run report results.jsonl -o rows.csv
cat rows.csv

# sentences FILE...: what a report of them says.
sentences() {
    run report "$@" --format md | grep -E '^(- |!|exit)'
}
# changed SED-SCRIPT: other rows, other words.
changed() {
    printf '\n== %s\n' "$1"
    sed -E "$1" results.jsonl >changed.jsonl
    sentences changed.jsonl >after
    diff before after
}
sentences results.jsonl >before
changed '/"plan 65536 R=64"/ s/"planned_peak_bytes":[0-9]+/"planned_peak_bytes":99999999/'
changed '/"run 16384 R=64"/ s/"median":[0-9.]+,"low":[0-9.]+/"median":0.5,"low":0.4/'
changed '/"suite":"memory"/d'
changed '/"openblas full"/ s/"status":"ok"/"status":"failed","reason":"out of memory"/'
changed '/"suite":"ring"/ { /"mpi full"/ s/"median":[0-9.]+,"low":[0-9.]+/"median":0.82,"low":0.81/ }'

# The newest row of a configuration counts, from whichever file.
printf '\n== two files\n'
sed -E '/"run 16384 R=4"/ !d; s/"time":"[^"]+"/"time":"2026-11-17T00:00:00Z"/; s/"peak_bytes":[0-9]+/"peak_bytes":77777777/' \
    results.jsonl >newer.jsonl
sentences newer.jsonl results.jsonl >after
diff before after
ls
