#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Includes point downward only. Each rule: a place, and which of the project's folders its files may include from.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

folders='base|bench|cli|exec|io|kernel|layer|oracle|plan|report|ring|score|transport'
rules='
src/base           base
src/kernel         kernel|base
src/plan           plan|base
src/io             io|base
src/score          score|base
src/transport      transport|base
src/transport/mpi  none
src/layer          layer
src/exec           exec|kernel|plan|score|base
src/oracle         oracle|plan|score|io|base
src/ring           ring|exec|kernel|transport|plan|score|io|base
src/api.c          exec|kernel|plan|score|io|base
src/api_backward.c exec|kernel|plan|score|base
src/api_init.c     base
src/api_reference.c oracle|base
src/api_reference_backward.c exec|plan|score|base
src/api_reference_gradient.c oracle|base
src/api_ring.c     ring|exec|kernel|transport|plan|score|io|base
src/api_ring_run.c ring|exec|kernel|transport|plan|score|io|base
bench              bench
report             report|bench
cli                cli|bench|report
examples           none
'
status=0
while read -r place allowed; do
    [[ -n $place ]] || continue
    if grep -rnE "^ *# *include *[<\"]($folders)/" "$place" | grep -vE "include *[<\"]($allowed)/"; then
        echo "$place: may include from $allowed" >&2
        status=1
    fi
done <<<"$rules"

# A path that climbs would get round the rules.
if grep -rnE '^ *# *include.*\.\./' include src bench report cli tests examples; then
    echo "includes name a folder, not a way to it" >&2
    status=1
fi
exit $status
