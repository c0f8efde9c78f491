/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens, saves and restores the file of states of a checkpoint. Results of virtual ranks: checkpoint_rows.c; files of
 * processes: checkpoint_set.c; when a rank saves: rank_save.c. See checkpoint.h.
 */
#include "ring/checkpoint.h"

#include "base/clock.h"
#include "base/sized.h"
#include "ring/checkpoint_parts.h"
#include "ring/greeting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE = RA_CHECKPOINT_LINE };

static const char MAGIC[16] = "ringattn state 2";

/* ---- What a run is of -------------------------------------------------------------------------------------------- */

static ra_status describe(ra_checkpoint *c, const ra_ring_plan *ring, const ra_checkpoint_options *o)
{
    enum { OWN_LINES = 2 }; /* of the file of a rank */
    ra_greeting greeting;
    const ra_kernel *kernel = NULL;
    ra_status status = ra_ring_kernel(ring, ring->options.o_dtype, &kernel);
    if (status)
        return status;
    ra_greeting_fill(&greeting, ring, kernel, ring->options.lse);
    c->lines = c->own_lines = RA_GREETING_FACTS + 2 + o->input_count;
    c->line = calloc((size_t)(c->lines + OWN_LINES), sizeof *c->line);
    if (!c->line)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: the description of a checkpoint");
    for (int i = 0; i < RA_GREETING_FACTS; i++)
        snprintf(c->line[i], LINE, "%s", greeting.line[i]);
    snprintf(c->line[RA_GREETING_FACTS], LINE, "output dtype: %s", ra_dtype_name(ring->options.o_dtype));
    snprintf(c->line[RA_GREETING_FACTS + 1], LINE, "tile order: %s", ra_tile_order_name(ring->plan->tiles));
    for (int i = 0; i < o->input_count; i++)
        snprintf(c->line[RA_GREETING_FACTS + 2 + i], LINE, "%s", o->inputs[i]);
    return RA_OK;
}

ra_status ra_checkpoint_write_lines(const ra_checkpoint *c, ra_saved_file *f, int lines)
{
    ra_status status = ra_saved_write(f, MAGIC, sizeof MAGIC);
    if (!status)
        status = ra_saved_write(f, &lines, sizeof lines);
    for (int i = 0; i < lines && !status; i++)
        status = ra_saved_write(f, c->line[i], LINE);
    return status;
}

ra_status ra_checkpoint_compare_lines(const ra_checkpoint *c, ra_saved_file *f, int lines)
{
    char magic[sizeof MAGIC], theirs[LINE];
    int count = 0;
    ra_status status = ra_saved_read(f, magic, sizeof magic);
    if (!status && memcmp(magic, MAGIC, sizeof magic) != 0)
        status = ra_fail(RA_ERROR_FORMAT, "%s: is not a checkpoint of this version", f->path);
    if (!status)
        status = ra_saved_read(f, &count, sizeof count);
    if (!status && count != lines)
        status = ra_fail(RA_ERROR_ARGUMENT, "%s: is the checkpoint of another run: %d facts, this one has %d", f->path,
                         count, lines);
    for (int i = 0; i < lines && !status; i++) {
        status = ra_saved_read(f, theirs, sizeof theirs);
        if (!status && strncmp(theirs, c->line[i], LINE) != 0)
            status = ra_fail(RA_ERROR_ARGUMENT,
                             "%s: is the checkpoint of another run: it has \"%.200s\", this one \"%.200s\": remove %s "
                             "to begin anew",
                             f->path, theirs, c->line[i], c->path);
    }
    return status;
}

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

char *ra_checkpoint_name(const char *path, const char *end)
{
    size_t size = strlen(path) + strlen(end) + 1;
    char *text = malloc(size);
    if (text)
        snprintf(text, size, "%s%s", path, end);
    return text;
}

static ra_status read_point(ra_checkpoint *c, bool *found)
{
    ra_saved_file *f = &c->file;
    ra_status status = ra_saved_open(f, c->own_path, found);
    if (status || !*found)
        return status;
    status = ra_checkpoint_compare_lines(c, f, c->own_lines);
    if (!status)
        status = ra_saved_read(f, &c->point, sizeof c->point);
    if (!status && (c->point.rank < 0 || c->point.rank > c->ranks))
        status = ra_fail(RA_ERROR_FORMAT, "%s: is damaged: rank %lld of %lld", c->own_path, (long long)c->point.rank,
                         (long long)c->ranks);
    c->done = status || c->rank >= 0 ? 0 : c->point.rank;
    if (!status)
        status = ra_saved_read(f, c->finished, c->done * (int64_t)sizeof *c->finished);
    c->flushed = c->done;
    c->continues = !status;
    return status;
}

/* What was saved by a run before this one. */
static ra_status look_back(ra_checkpoint *c)
{
    bool found = true;
    ra_status status = c->rank < 0 ? RA_OK : ra_checkpoint_read_set(c, &found);
    if (status || !found)
        return status;
    status = read_point(c, &found);
    if (!status && !found && c->rank >= 0)
        status = ra_fail(RA_ERROR_FORMAT, "%s: is missing: %s is the checkpoint of %lld ranks: remove it to begin anew",
                         c->own_path, c->path, (long long)c->ranks);
    return status;
}

/* What could not be saved is found out before the run, not after its first hour. */
static ra_status probe(const ra_checkpoint *c)
{
    ra_status status = ra_saved_probe(c->own_path);
    if (!status && c->rank == 0)
        status = ra_saved_probe(c->path);
    return status || c->rank >= 0 ? status : ra_checkpoint_probe_rows(c);
}

static ra_status fill(ra_checkpoint *c, const ra_ring_plan *ring, const ra_checkpoint_options *o)
{
    const ra_plan *p = ring->plan;
    char end[16] = "";
    c->every = o->every;
    c->saved = ra_seconds();
    c->stop = o->stop;
    c->stop_user = o->stop_user;
    c->failed = o->failed;
    c->failed_user = o->failed_user;
    c->saving = o->saving;
    c->saving_user = o->saving_user;
    c->missing = -1;
    c->rows_file = c->file.fd = -1;
    c->rank = ring->options.transport == RA_TRANSPORT_SIM ? -1 : o->rank;
    c->ranks = ring->options.ranks;
    c->batch = p->batch;
    c->q_len = p->q_len;
    c->heads = p->heads;
    c->row_bytes = p->heads * p->value_dim * (int64_t)ra_dtype_size(ring->options.o_dtype);
    c->lse_at = p->batch * p->q_len * c->row_bytes;
    if (c->rank >= 0)
        snprintf(end, sizeof end, ".%d", c->rank);
    c->path = ra_checkpoint_name(o->path, "");
    c->own_path = ra_checkpoint_name(o->path, end);
    c->rows_path = ra_checkpoint_name(o->path, ".rows");
    c->finished = calloc((size_t)c->ranks, sizeof *c->finished);
    if (!c->path || !c->own_path || !c->rows_path || !c->finished)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: a checkpoint of %lld ranks", (long long)c->ranks);
    ra_status status = describe(c, ring, o);
    if (!status)
        status = look_back(c);
    return status ? status : probe(c);
}

static ra_status check(const ra_checkpoint_options *o, const ra_ring_options *ring)
{
    if (!o->path || !*o->path)
        return ra_fail(RA_ERROR_ARGUMENT, "checkpoint: there is no path");
    if (o->input_count < 0 || (o->input_count > 0 && !o->inputs))
        return ra_fail(RA_ERROR_ARGUMENT, "checkpoint: %d inputs, but the list of inputs is %s", o->input_count,
                       o->inputs ? "there" : "NULL");
    if (!(o->every >= 0))
        return ra_fail(RA_ERROR_ARGUMENT, "checkpoint: every %g seconds: must be 0 or more", o->every);
    if (o->rank < 0 || o->rank >= ring->ranks)
        return ra_fail(RA_ERROR_ARGUMENT, "checkpoint: rank %d: must be 0..%d", o->rank, ring->ranks - 1);
    if (ring->backward)
        return ra_fail(RA_ERROR_ARGUMENT, "checkpoint: the plan is of a backward pass, which cannot be saved");
    if (ring->transport == RA_TRANSPORT_THREADS || ring->lent)
        return ra_fail(RA_ERROR_UNSUPPORTED,
                       "checkpoint: transport %s%s: runs of virtual ranks (sim) and of processes (mpi) from and to "
                       "storages can be saved",
                       ra_transport_name(ring->transport), ring->lent ? ", tensors in memory" : "");
    return RA_OK;
}

ra_status ra_checkpoint_open(const ra_checkpoint_options *theirs, const ra_ring_plan *ring, ra_checkpoint **checkpoint)
{
    ra_checkpoint_options options = RA_CHECKPOINT_OPTIONS_INIT;
    if (!theirs || !ring || !checkpoint)
        return ra_fail(RA_ERROR_ARGUMENT, "%s is NULL", !theirs ? "options" : !ring ? "plan" : "checkpoint");
    *checkpoint = NULL;
    ra_status status = ra_copy_in(&options, theirs, &ra_sized_checkpoint_options);
    if (!status)
        status = check(&options, &ring->options);
    if (status)
        return status;
    ra_checkpoint *c = calloc(1, sizeof *c);
    status = c ? fill(c, ring, &options) : ra_fail(RA_ERROR_MEMORY, "out of memory: a checkpoint");
    if (status)
        ra_checkpoint_free(c);
    else
        *checkpoint = c;
    return status;
}

void ra_checkpoint_free(ra_checkpoint *c)
{
    if (!c)
        return;
    ra_saved_close(&c->file);
    if (c->rows_file >= 0)
        close(c->rows_file);
    free(c->path);
    free(c->own_path);
    free(c->rows_path);
    free(c->finished);
    free(c->line);
    free(c);
}

void ra_checkpoint_remove(ra_checkpoint *c)
{
    if (!c)
        return;
    ra_saved_remove(c->path);
    if (c->rank >= 0)
        ra_checkpoint_remove_set(c);
    else
        unlink(c->rows_path);
}

int ra_checkpoint_found(const ra_checkpoint *c)
{
    return c && c->continues;
}

int ra_checkpoint_rank(const ra_checkpoint *c)
{
    return c->rank;
}

/* ---- Where a run stands ------------------------------------------------------------------------------------------ */

bool ra_checkpoint_continues(const ra_checkpoint *c, ra_point *point, ra_rank_stats *stats)
{
    if (!c->continues)
        return false;
    *point = c->point;
    for (int64_t rank = 0; stats && rank < c->done; rank++)
        stats[rank] = c->finished[rank].stats;
    return true;
}

ra_status ra_checkpoint_restore_states(ra_checkpoint *c, void *states, int64_t bytes)
{
    if (c->point.state_bytes != bytes)
        return ra_fail(RA_ERROR_FORMAT, "%s: states of %lld bytes where this run has %lld", c->own_path,
                       (long long)c->point.state_bytes, (long long)bytes);
    c->file.between = c->between;
    c->file.between_user = c->between_user;
    return ra_saved_read(&c->file, states, bytes);
}

int ra_checkpoint_stops(void *checkpoint)
{
    const ra_checkpoint *c = checkpoint;
    return c->stop && c->stop(c->stop_user);
}

bool ra_checkpoint_due(ra_checkpoint *c, bool *stop)
{
    *stop = ra_checkpoint_stops(c);
    return *stop || ra_seconds() - c->saved >= c->every;
}

void ra_checkpoint_tell(const ra_checkpoint *c, bool begins)
{
    if (c->saving)
        c->saving(c->saving_user, begins);
}

void ra_checkpoint_between(ra_checkpoint *c, void (*between)(void *user), void *user)
{
    c->between = between;
    c->between_user = user;
}

static ra_status write_point(const ra_checkpoint *c, const ra_point *point, const void *states)
{
    ra_saved_file f;
    ra_status status = ra_saved_begin(&f, c->own_path);
    f.between = c->between;
    f.between_user = c->between_user;
    if (!status)
        status = ra_checkpoint_write_lines(c, &f, c->own_lines);
    if (!status)
        status = ra_saved_write(&f, point, sizeof *point);
    if (!status)
        status = ra_saved_write(&f, c->finished, c->done * (int64_t)sizeof *c->finished);
    if (!status)
        status = ra_saved_write(&f, states, point->state_bytes);
    if (!status)
        status = ra_saved_finish(&f);
    ra_saved_close(&f);
    return status;
}

ra_status ra_checkpoint_save(ra_checkpoint *c, const ra_point *point, const void *states)
{
    ra_checkpoint_tell(c, true);
    ra_status status = ra_checkpoint_flush_rows(c);
    if (!status)
        status = write_point(c, point, states);
    if (!status && c->rank == 0 && c->incomplete)
        status = ra_checkpoint_complete_set(c);
    c->saved = ra_seconds(); /* the next try comes when the next save would */
    ra_checkpoint_tell(c, false);
    return status;
}

void ra_checkpoint_tell_failure(const ra_checkpoint *c)
{
    if (c->failed)
        c->failed(c->failed_user, ra_last_message());
}

bool ra_checkpoint_try(ra_checkpoint *c, const ra_point *point, const void *states)
{
    ra_status status = ra_checkpoint_save(c, point, states);
    if (status)
        ra_checkpoint_tell_failure(c);
    return !status;
}
