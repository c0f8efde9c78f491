/*
 * What tells whether the inputs are still what they were: for checkpoints, and for files that somebody changes while
 * they are read. Functions return an exit code and report.
 */
#ifndef CLI_FINGERPRINT_H
#define CLI_FINGERPRINT_H

#include "attention_files.h"

enum { FINGERPRINT_INPUTS = 3, FINGERPRINT_TEXT = RA_FINGERPRINT_TEXT + 16 };

/* "query: ...", "key: ..." and "value: ...": size, time and a checksum of a sample of a file, or what is made up. */
typedef struct fingerprints {
    char text[FINGERPRINT_INPUTS][FINGERPRINT_TEXT];
} fingerprints;

int fingerprints_take(fingerprints *prints, const attention_files *inputs);

/* EXIT_WORK where an input is not what it was when they were taken. */
int fingerprints_compare(const fingerprints *before, const attention_files *inputs);

#endif
