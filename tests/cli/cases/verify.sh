# SPDX-License-Identifier: Apache-2.0
# The quick table: all lines must be within tolerance. The lines are this machine's, the last one is not.
# shellcheck shell=bash disable=SC2154 # run.sh provides the functions and $qkv
run verify --quick | sed -n -e 's/[0-9]* of [0-9]* lines/all lines/p' -e '/FAILED/p' -e '/exit/p'
run info | cut -c 1-18 | sed 's/ *$//'
