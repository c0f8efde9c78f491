#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sources look as .clang-format says. `./dev format` makes them so.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/builds.sh

sources | xargs -0 clang-format --dry-run -Werror
