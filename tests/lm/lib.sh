# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts beside it, which get LM [LAUNCHER [OPTION...]]: without a launcher there is no MPI.
# shellcheck shell=bash source=tests/mpi/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../mpi/lib.sh"

# A text with something to learn, and a small model of odd sizes.
for ((i = 0; i < 400; i++)); do echo "line $((i * i % 97)) says $((i % 7)) and then ${RANDOM:+more}"; done >text
model=(--data text --layers 2 --embed 36 --heads 2 --threads 1)
export OMPI_MCA_mpi_yield_when_idle=1 # more ranks than cores
ranks=(1)
if ((${#mpirun[@]})); then ranks=(1 2 3 4); fi

# lm RANKS ARGS...: the program, alone or under mpirun; what it prints is in `out` and `err`.
lm() {
    if (($1 == 1)); then "$binary" "${@:2}" >out 2>err; else over "$@"; fi
}

# must RANKS ARGS...: as a step that has to succeed.
must() {
    lm "$@" || fail "lm ${*:2} on $1 ranks: exit $?"
}

# losses LOG: one a line.
losses() {
    sed -nE 's/.*"loss":([^,]*),.*/\1/p' "$1"
}

# lasting LOG: what does not depend on time.
lasting() {
    sed -E 's/"tokens_per_second":[^,]*,//; s/"seconds":\{[^}]*\},//g' "$1"
}

# weights CHECKPOINT LOG: the parameters and what Adam has of them, without head and checksum.
weights() {
    local count
    count=$(sed -nE '1s/.*"parameters":([0-9]+).*/\1/p' "$2")
    tail -c $((12 * count + 8)) "$1" | head -c $((12 * count))
}
