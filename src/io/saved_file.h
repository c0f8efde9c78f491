/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that is written as a whole and appears at once: PATH.new, renamed to PATH when everything is on the disk. It
 * ends with a checksum of all that comes before, so that a file that was cut or changed is found out.
 */
#ifndef RA_IO_SAVED_FILE_H
#define RA_IO_SAVED_FILE_H

#include "base/status.h"

#include <stdbool.h>

typedef struct ra_saved_file {
    int fd;
    const char *path; /* the caller's */
    char *name;       /* PATH.new, while it is written */
    int64_t at, size; /* where to go on; bytes without the checksum */
    uint64_t hash;
    void (*between)(void *user); /* NULL, or called between pieces of what is moved: set after it was opened */
    void *between_user;
} ra_saved_file;

/* Writing: begin, some writes, then finish. Close it whatever happened; what was not finished is removed. */
ra_status ra_saved_begin(ra_saved_file *file, const char *path);
ra_status ra_saved_write(ra_saved_file *file, const void *data, int64_t bytes);
ra_status ra_saved_finish(ra_saved_file *file);

/* Before anything is written: RA_ERROR_FILE if PATH.new cannot be. Leaves nothing behind, and changes nothing. */
ra_status ra_saved_probe(const char *path);

/* Reading: the checksum is looked at first; to peek is to leave that out. *found false: there is no such file. */
ra_status ra_saved_open(ra_saved_file *file, const char *path, bool *found);
ra_status ra_saved_peek(ra_saved_file *file, const char *path, bool *found);
ra_status ra_saved_read(ra_saved_file *file, void *data, int64_t bytes);

void ra_saved_close(ra_saved_file *file);

/* The file, and what a process that was killed while it saved has left of the next one. */
void ra_saved_remove(const char *path);

/* A hash of bytes, going on from another. */
uint64_t ra_saved_hash(uint64_t hash, const void *data, int64_t bytes);

#endif
