#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# options.sh RINGATTN DOCUMENT: the document names every option of every verb and suite, and no other.
set -euo pipefail
export LC_ALL=C.UTF-8
binary=$1 document=$2

help() {
    local verb suite
    for verb in $("$binary" --help | sed -nE '/^examples/q; s/^  ([a-z]+) +.*/\1/p'); do
        if [[ $verb == help ]]; then continue; fi
        "$binary" "$verb" --help
    done
    for suite in $("$binary" bench --help | sed -nE 's/^  ([a-z]+) +.*/\1/p'); do "$binary" bench "$suite" --help; done
}
options() { grep -oE -- '--[a-z][a-z-]*[a-z]' | sort -u; }

# Below "Every option", up to the next chapter.
diff <(help | grep -E '^  (-[a-z], )?--' | sed -E 's/^ *(-[a-z], )?(--[a-z-]+).*/\2/' | sort -u) \
    <(sed -n '/^## Every option/,/^## Statistics/p' "$document" | options | grep -vx -e --version)
