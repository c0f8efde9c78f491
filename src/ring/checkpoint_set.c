/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoint files of ranks that are processes, and the file that ties them together. */
#include "ring/checkpoint.h"
#include "ring/checkpoint_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* A number that is hardly ever drawn twice. */
static uint64_t new_number(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const int64_t figures[] = {now.tv_sec, now.tv_nsec, getpid()};
    return ra_saved_hash(0, figures, sizeof figures);
}

void ra_checkpoint_join(ra_checkpoint *c, uint64_t set)
{
    c->set = set;
    c->own_lines = c->lines;
    snprintf(c->line[c->own_lines++], RA_CHECKPOINT_LINE, "rank: %d", c->rank);
    snprintf(c->line[c->own_lines++], RA_CHECKPOINT_LINE, "set: %016llx", (unsigned long long)set);
}

ra_status ra_checkpoint_read_set(ra_checkpoint *c, bool *found)
{
    ra_saved_file f;
    uint64_t set = new_number();
    ra_status status = ra_saved_open(&f, c->path, found);
    if (!status && *found)
        status = ra_checkpoint_compare_lines(c, &f, c->lines);
    if (!status && *found)
        status = ra_saved_read(&f, &set, sizeof set);
    ra_saved_close(&f);
    ra_checkpoint_join(c, set);
    return status;
}

uint64_t ra_checkpoint_set(const ra_checkpoint *c)
{
    return c ? c->set : 0;
}

void ra_checkpoint_describe(const ra_checkpoint *c, char *text, size_t size)
{
    if (c && c->continues)
        snprintf(text, size, "checkpoint: %016llx", (unsigned long long)c->set);
    else
        snprintf(text, size, "checkpoint: %s", c ? "to be begun" : "none");
}

static ra_status write_set(const ra_checkpoint *c)
{
    ra_saved_file f;
    ra_status status = ra_saved_begin(&f, c->path);
    if (!status)
        status = ra_checkpoint_write_lines(c, &f, c->lines);
    if (!status)
        status = ra_saved_write(&f, &c->set, sizeof c->set);
    if (!status)
        status = ra_saved_finish(&f);
    ra_saved_close(&f);
    return status;
}

/* The path of a rank's file, allocated for the caller; NULL: out of memory. */
static char *path_of(const ra_checkpoint *c, int rank)
{
    char end[16];
    snprintf(end, sizeof end, ".%d", rank);
    return ra_checkpoint_name(c->path, end);
}

/* Whether a rank has saved something of this set. A file gets its name only when it is complete and on the disk. */
static bool has_saved(ra_checkpoint *c, int rank)
{
    ra_saved_file f = {.fd = -1};
    bool found = false;
    char *path = path_of(c, rank);
    ra_status status = path ? ra_saved_peek(&f, path, &found) : RA_ERROR_MEMORY;
    snprintf(c->line[c->lines], RA_CHECKPOINT_LINE, "rank: %d", rank);
    if (!status && found)
        status = ra_checkpoint_compare_lines(c, &f, c->own_lines);
    snprintf(c->line[c->lines], RA_CHECKPOINT_LINE, "rank: %d", c->rank);
    ra_saved_close(&f);
    free(path);
    return !status && found;
}

ra_status ra_checkpoint_complete_set(ra_checkpoint *c)
{
    for (int rank = 0; rank < c->ranks; rank++)
        if (!has_saved(c, rank))
            return ra_fail(RA_ERROR_FILE, "%s: rank %d has not saved anything yet", c->path, rank);
    ra_status status = write_set(c);
    c->incomplete = status != RA_OK;
    return status;
}

void ra_checkpoint_begin_set(ra_checkpoint *c, bool all_saved)
{
    c->incomplete = !all_saved;
    if (c->rank > 0)
        return;
    c->incomplete = (all_saved ? write_set(c) : ra_checkpoint_complete_set(c)) != RA_OK;
    if (c->incomplete && all_saved) /* else the rank that could not save has told */
        ra_checkpoint_tell_failure(c);
}

ra_status ra_checkpoint_check_set(ra_checkpoint *c)
{
    ra_saved_file f;
    bool found = false;
    uint64_t set = 0;
    if (c->rank < 0 || !c->incomplete)
        return RA_OK;
    ra_status status = ra_saved_open(&f, c->path, &found);
    if (!status && found)
        status = ra_checkpoint_compare_lines(c, &f, c->lines);
    if (!status && found)
        status = ra_saved_read(&f, &set, sizeof set);
    ra_saved_close(&f);
    c->incomplete = status || set != c->set;
    return c->incomplete
               ? ra_fail(RA_ERROR_FILE, "%s: not all ranks could save: there is nothing to go on from", c->path)
               : RA_OK;
}

void ra_checkpoint_remove_set(const ra_checkpoint *c)
{
    for (int rank = 0; rank < c->ranks; rank++) {
        char *path = path_of(c, rank);
        if (path)
            ra_saved_remove(path);
        free(path);
    }
}
