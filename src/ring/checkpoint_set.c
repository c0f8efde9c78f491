/* The files of ranks that are processes, and what says that they belong together. */
#include "ring/checkpoint.h"
#include "ring/checkpoint_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Hardly ever the same twice. */
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

ra_status ra_checkpoint_complete(ra_checkpoint *c)
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

void ra_checkpoint_remove_set(const ra_checkpoint *c)
{
    for (int rank = 0; rank < c->ranks; rank++) {
        char end[16];
        snprintf(end, sizeof end, ".%d", rank);
        char *path = ra_checkpoint_name(c->path, end);
        if (path)
            ra_saved_remove(path);
        free(path);
    }
}
