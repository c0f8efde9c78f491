#!/usr/bin/env bash
# Shell scripts parse and hold no surprises.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

mapfile -d '' -t scripts < <(find dev .ci/run tools tests -type f \( -name '*.sh' -o -name dev -o -name run \) -print0)
for script in "${scripts[@]}"; do
    bash -n "$script"
done
shellcheck --external-sources "${scripts[@]}"
