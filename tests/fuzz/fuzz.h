/* SPDX-License-Identifier: Apache-2.0 */
/* What a fuzz target offers (libFuzzer calls it, and replay.c in its place), and what it uses. */
#ifndef RA_TESTS_FUZZ_H
#define RA_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Feeds one input to the parser under test; always returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Stops with a message when what must hold does not, in every kind of build. */
#define MUST(condition) ((condition) ? (void)0 : (fprintf(stderr, "%s: not so: %s\n", __func__, #condition), abort()))

#endif
