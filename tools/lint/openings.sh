#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every source file opens with what it is for, below its licence (licence.sh).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

status=0
while IFS= read -r -d '' file; do
    if [[ $(sed -n '2 s/^\(..\).*/\1/p' "$file") != '/*' ]]; then
        echo "$file: does not open with a comment that says what the file is for" >&2
        status=1
    fi
done < <(find src cli bench report -name '*.[ch]' -print0)
exit $status
