/* Bytes as people read them. Machines read them as integers. */
#ifndef CLI_BYTES_TEXT_H
#define CLI_BYTES_TEXT_H

#include <stdint.h>

enum { BYTES_TEXT = 32 };

/* "24 bytes", "385.3 MiB": in the largest unit that gives 1 or more. */
void bytes_text(int64_t bytes, char text[BYTES_TEXT]);

#endif
