/* What tells whether an input is still the one that it was: for checkpoints. */
#ifndef CLI_FINGERPRINT_H
#define CLI_FINGERPRINT_H

#include "tensor_file.h"

enum { FINGERPRINT_TEXT = 256 };

/* "query: ..." with the size, time and a checksum of a sample of the file, or what is made up. Reports; exit code. */
int fingerprint(const char *name, const tensor_file *file, char text[FINGERPRINT_TEXT]);

#endif
