#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Shell scripts parse and hold no surprises.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

mapfile -d '' -t scripts < <(find dev .ci/run tools tests -type f \( -name '*.sh' -o -name dev -o -name run \) -print0)
for script in "${scripts[@]}"; do
    bash -n "$script"
done
# Scripts here set variables for the pieces that they source: not unused (SC2034) there, not unassigned (SC2154) here.
shellcheck --shell=bash --external-sources --exclude=SC2034,SC2154 "${scripts[@]}"
