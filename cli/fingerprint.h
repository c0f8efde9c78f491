/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells whether the inputs have changed: for checkpoints, and for files that are changed while
 * they are read. Functions return an exit code and report.
 */
#ifndef CLI_FINGERPRINT_H
#define CLI_FINGERPRINT_H

#include "run_files.h"

enum { FINGERPRINT_INPUTS = 11, FINGERPRINT_TEXT = RA_FINGERPRINT_TEXT + 32 };

/*
 * "query: ...", "key: ...", "scores file 1: ...": size, time and a checksum of a sample of each file, or what is made
 * up.
 */
typedef struct fingerprints {
    int count;
    char text[FINGERPRINT_INPUTS][FINGERPRINT_TEXT];
} fingerprints;

/* Of inputs, and of the files that the text `scores`, if not NULL, names. */
int fingerprints_take(fingerprints *prints, const run_file *inputs, int count, const char *scores);

/* EXIT_WORK if an input has changed since the fingerprints were taken. */
int fingerprints_compare(const fingerprints *before, const run_file *inputs, int count, const char *scores);

#endif
