#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Words that do not belong into the tree: marks of work that is left to do, and phrases that must be read twice. A plan is
# the place for the first; the second have a usual one: the name of the number, "cannot be read", "except".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# The marks and phrases are spelt with a class so that this file does not find itself.
status=0
if grep -rnIE --exclude-dir=build --exclude-dir=.git '\b(TOD[O]|FIXM[E]|XX[X]|HAC[K])\b' .; then status=1; fi
# What runs have printed stays as it was: docs/RESULTS.md.
phrases='\b(so man[y] (of|groups|rows|bytes|keys|blocks|heads|ranks|bits|seconds|positions|places)|(not )?to be ha[d]\b'
phrases+='|of whic[h] some\b|said o[f] (it|them)\b|what is lat[e]\b|nobody'"'"'[s]\b)'
if grep -rnIE --exclude-dir=build --exclude-dir=.git --exclude=RESULTS.md "$phrases" \
    README.md CONTRIBUTING.md docs include src cli bench report examples tools python; then
    status=1
fi
exit $status
