/* SPDX-License-Identifier: Apache-2.0 */
/* What the library's own parts ask of an ra_array beyond the public header. */
#ifndef RA_IO_ARRAY_H
#define RA_IO_ARRAY_H

#include "ringattn/ringattn.h"

/* As it was given: for messages. */
const char *ra_array_path(const ra_array *array);

/* ra_file_fingerprint of its file, with a sample of its elements. */
ra_status ra_array_fingerprint(const ra_array *array, char *text, size_t size);

#endif
