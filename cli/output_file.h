/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A text or image file that appears at its path whole, or not at all. Until then it is PATH.partial, locked; one that a
 * killed run has left is replaced. Functions return an exit code and report.
 */
#ifndef CLI_OUTPUT_FILE_H
#define CLI_OUTPUT_FILE_H

#include <stdbool.h>
#include <stdio.h>

typedef struct output_file {
    const char *path; /* NULL: not open */
    char *temporary;  /* NULL: standard output, a device or a pipe, written directly */
    FILE *stream;
    int cleaned; /* the temporary file's number for interrupt_forget */
} output_file;

/* Opens a stream to write to, standard output for "-": the place to find out that the path cannot be written. */
int output_file_open(output_file *file, const char *path);

/* Everything has been written: get it to the disk. Then put it in place. */
int output_file_finish(output_file *file);
int output_file_commit(output_file *file);

/* Releases the file; what was not committed disappears. Harmless on one that is not open. */
void output_file_close(output_file *file);

/* What a file at this path is called while it is being written, in memory of the caller's; NULL: out of memory. */
char *temporary_name(const char *path);

/* True when both paths name one file, which need not exist yet. NULL is no file. */
bool same_file(const char *a, const char *b);

#endif
