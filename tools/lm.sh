#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/lm.sh [STEPS]: trains a small model on a text and one on a genome, with a context of 16K, and compares the bits a
# byte of the last 400,000 bytes, which neither has seen, with Markov models of the same bytes. Leaves logs, checkpoints and
# reports in build/lm, and goes on from there if it was stopped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

steps=${1:-200}
programs=$PWD/build/examples/lm
ringattn=$PWD/build/ringattn
held_out=400000
model=(--context 16K --layers 3 --embed 128 --heads 4 --pattern "dilated:512/1,2048/4,8192/16+causal" --rate 0.01
    --warmup 10)
mkdir -p build/lm
cd build/lm

# run COMMAND...: shows the command, then what it prints.
run() {
    echo "\$ $*"
    "$@"
}

# learn NAME ORDER: trains on NAME, Markov models up to ORDER.
learn() {
    local name=$1
    head -c "-$held_out" "$name" >"$name.train"
    tail -c "$held_out" "$name" >"$name.test"
    echo "== $name: $(wc -c <"$name") bytes, the last $held_out are held out"
    run "$programs/lm" train --data "$name.train" "${model[@]}" --steps "$steps" --checkpoint "$name.$steps.checkpoint" \
        --log "$name.$steps.jsonl"
    echo "model, on what was held out:"
    run "$programs/lm" eval --data "$name.test" --checkpoint "$name.$steps.checkpoint"
    echo "Markov models, on the same bytes:"
    run "$programs/markov" "$name.train" "$name.test" "$2"
    run "$ringattn" report "$name.$steps.jsonl" -o "$name.$steps.html"
}

bible -f gen1:1-rev22:21 >text
gzip -dc /usr/share/doc/bowtie/examples/genomes/NC_008253.fna.gz | tail -n +2 | tr -d '\n' >genome
learn text 8
learn genome 12
