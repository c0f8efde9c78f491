# SPDX-License-Identifier: Apache-2.0
# Every text of --help.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
run --help
run --version
for verb in attend gradient plan advise check verify show generate info bench report; do
    run $verb --help
done
for suite in kernel memory ring; do
    run bench $suite --help
done
