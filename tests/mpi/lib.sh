# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts beside it, which get RINGATTN LAUNCHER [OPTION...]: a folder of their own, and runs that can be
# watched and disturbed.
# shellcheck shell=bash
set -u
export LC_ALL=C.UTF-8
unset RA_KERNEL RA_MPI_PIECE_BYTES
binary=$(realpath "$1")
shift
mpirun=("$@")
# The ranks are killed and stopped by us: nobody else needs to be told.
export OMPI_MCA_orte_abort_print_stack=0

work=$(mktemp -d)
cd "$work" || exit 1
disturbed=() # processes that may have been left behind

clean_up() {
    local pid
    for pid in "${disturbed[@]}"; do
        if [[ $(readlink "/proc/$pid/exe") == "$binary" ]]; then kill -KILL "$pid"; fi
    done
    rm -rf "$work"
}
trap clean_up EXIT

fail() {
    printf '%s\n' "$*"
    if [[ -e err ]]; then sed 's/^/! /' err; fi
    exit 1
}

# quietly ARGS...: the command in one process, as a step that must succeed.
quietly() {
    "$binary" "$@" >out 2>err || fail "ringattn $*: exit $?"
}

# tensors SHAPE [OPTION...]: q.npy, k.npy and v.npy.
tensors() {
    local name seed=0
    for name in q k v; do
        quietly generate --shape "$1" --seed $((++seed)) --output $name.npy "${@:2}"
    done
}

qkv=(--query q.npy --key k.npy --value v.npy)

# over PROCESSES ARGS...: the command under mpirun; returns its exit code, keeps what it prints in `out` and `err`.
over() {
    "${mpirun[@]}" -n "$1" "$binary" "${@:2}" >out 2>err
}

# refused CODE WORDS: the last run's exit code was 2, it has said WORDS, and there is no output.
refused() {
    (($1 == 2)) || fail "exit $1 instead of 2"
    grep -qF -- "$2" err || fail "said nothing like '$2'"
    compgen -G '[ols].*' >/dev/null && fail "has written: $(ls)"
    return 0
}

milliseconds() {
    echo $((${EPOCHREALTIME/[.,]/} / 1000))
}

# ---- A run in the background, whose ranks can be found ---------------------------------------------------------------

# begin PROCESSES ARGS...: as `over`. When it has ended, its exit code is in the file `code`.
begin() {
    rm -f code
    (
        over "$@"
        echo $? >code.new
        mv code.new code
    ) &
    run=$!
}

descendants() {
    local child
    for child in $(pgrep -P "$1"); do
        echo "$child"
        descendants "$child"
    done
}

# rank_process RANK: its process id.
rank_process() {
    local pid
    for pid in $(descendants "$run"); do
        if [[ $(readlink "/proc/$pid/exe") == "$binary" ]] &&
            tr '\0' '\n' <"/proc/$pid/environ" | grep -qxE "(OMPI_COMM_WORLD_RANK|PMI_RANK)=$1"; then
            echo "$pid"
        fi
    done 2>/dev/null
}

# until_in_mid_ring PROCESSES FILE SECONDS: all ranks are there, FILE is being written, so many seconds have gone by.
until_in_mid_ring() {
    local i rank
    for ((i = 0; i < 300; i++)); do
        if [[ -e code ]]; then fail "ended too soon: exit $(cat code)"; fi
        if [[ -e $2.partial ]]; then break; fi
        sleep 0.1
    done
    disturbed=()
    for ((rank = 0; rank < $1; rank++)); do
        disturbed+=("$(rank_process $rank)")
        [[ -n ${disturbed[rank]} ]] || fail "rank $rank cannot be found"
    done
    sleep "$3"
}

# ended_within MILLISECONDS: waits so long for the end of the run, and for its exit code.
ended_within() {
    local end=$(($(milliseconds) + $1))
    while [[ ! -e code ]]; do
        if (($(milliseconds) > end)); then fail "has not ended within $1 ms"; fi
        sleep 0.05
    done
    wait "$run"
    return "$(cat code)"
}
