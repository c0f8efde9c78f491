# SPDX-License-Identifier: Apache-2.0
# Standard output that is closed or full: whatever a verb has printed is lost, which is an error.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
tensors 40,2,8 40,2,8 40,2,8
quietly attend "${qkv[@]}" --output o.npy
problem=(--length 1000 --heads 2 --dim 16)

# lost ARGS...: the exit codes, and what is said.
lost() {
    printf '%s\n' "${*/"$here"/tests/cli}"
    "$binary" "$@" 2>&1 >&- | sed 's/^/  closed: /'
    printf '  closed: exit %d\n' "${PIPESTATUS[0]}"
    "$binary" "$@" 2>&1 >/dev/full | sed 's/^/  full: /'
    printf '  full: exit %d\n' "${PIPESTATUS[0]}"
}
lost --help
lost --version
lost attend --help
lost attend "${qkv[@]}" --output new.npy --stats -
lost attend "${qkv[@]}" --output null
lost plan "${problem[@]}" --ring 2
lost plan "${problem[@]}" --ring 2 --json
lost advise "${problem[@]}" --memory 64MiB
lost check "${qkv[@]}" --output o.npy
lost verify --quick
lost show --pattern causal --length 8
lost info
lost bench --help
lost report "$here/../report/results.jsonl" --format csv
ls

# What prints nothing does not need it; a closed standard error is no reason to fail.
"$binary" attend "${qkv[@]}" --output new.npy >&- 2>&-
echo "exit $?"
ls
