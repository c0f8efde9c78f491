#!/usr/bin/env bash
# Makes a Q/K/V set, attends to it, checks rows of the result against the oracle. Needs build/ringattn and no input.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

shape=1,8192,8,64
pattern=causal
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() {
    printf '\n== %s\n' "$*"
}
