#include "ring/checkpoint.h"

#include "base/checked.h"
#include "base/sized.h"
#include "io/saved_file.h"
#include "ring/greeting.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 20, LINE = 512 };

/* What a rank that is finished did, and a sum of its results. */
typedef struct finished_rank {
    ra_rank_stats stats;
    uint64_t sum;
} finished_rank;

struct ra_checkpoint {
    char *path, *rows_path;
    double every, saved; /* seconds; when */
    int (*stop)(void *user);
    void *stop_user;

    int lines; /* what the run is of */
    char (*line)[LINE];

    int64_t ranks, done;
    finished_rank *finished; /* [ranks] */
    int rows_file;           /* -1: not yet */
    int64_t batch, q_len, heads, row_bytes, lse_at;
    bool rows_changed; /* since they were flushed */

    bool continues;
    ra_point point;
    ra_saved_file file; /* from which states are to be read */
};

static const char MAGIC[16] = "ringattn state 1";

/* ---- What a run is of -------------------------------------------------------------------------------------------- */

static ra_status describe(ra_checkpoint *c, const ra_ring_plan *ring, const ra_checkpoint_options *o)
{
    ra_greeting greeting;
    ra_greeting_fill(&greeting, ring, ring->options.lse);
    c->lines = RA_GREETING_LINES + 2 + o->input_count;
    c->line = calloc((size_t)c->lines, sizeof *c->line);
    if (!c->line)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: the description of a checkpoint");
    for (int i = 0; i < RA_GREETING_LINES; i++)
        snprintf(c->line[i], LINE, "%s", greeting.line[i]);
    snprintf(c->line[RA_GREETING_LINES], LINE, "output dtype: %s", ra_dtype_name(ring->options.o_dtype));
    snprintf(c->line[RA_GREETING_LINES + 1], LINE, "tile order: %s", ra_tile_order_name(ring->plan->tiles));
    for (int i = 0; i < o->input_count; i++)
        snprintf(c->line[RA_GREETING_LINES + 2 + i], LINE, "%s", o->inputs[i]);
    return RA_OK;
}

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

static ra_status compare_lines(const ra_checkpoint *c, ra_saved_file *f)
{
    char magic[sizeof MAGIC], theirs[LINE];
    int lines = 0;
    ra_status status = ra_saved_read(f, magic, sizeof magic);
    if (!status && memcmp(magic, MAGIC, sizeof magic) != 0)
        status = ra_fail(RA_ERROR_FORMAT, "%s: is not a checkpoint of this version", c->path);
    if (!status)
        status = ra_saved_read(f, &lines, sizeof lines);
    if (!status && lines != c->lines)
        status = ra_fail(RA_ERROR_ARGUMENT, "%s: is the checkpoint of another run: %d facts, this one has %d", c->path,
                         lines, c->lines);
    for (int i = 0; i < c->lines && !status; i++) {
        status = ra_saved_read(f, theirs, sizeof theirs);
        if (!status && strncmp(theirs, c->line[i], LINE) != 0)
            status = ra_fail(RA_ERROR_ARGUMENT,
                             "%s: is the checkpoint of another run: it has \"%.200s\", this one \"%.200s\": remove it "
                             "to begin anew",
                             c->path, theirs, c->line[i]);
    }
    return status;
}

static ra_status read_point(ra_checkpoint *c, bool *found)
{
    ra_saved_file *f = &c->file;
    ra_status status = ra_saved_open(f, c->path, found);
    if (status || !*found)
        return status;
    status = compare_lines(c, f);
    if (!status)
        status = ra_saved_read(f, &c->point, sizeof c->point);
    if (!status && (c->point.rank < 0 || c->point.rank > c->ranks))
        status = ra_fail(RA_ERROR_FORMAT, "%s: is damaged: rank %lld of %lld", c->path, (long long)c->point.rank,
                         (long long)c->ranks);
    c->done = status ? 0 : c->point.rank;
    if (!status)
        status = ra_saved_read(f, c->finished, c->done * (int64_t)sizeof *c->finished);
    c->continues = !status;
    return status;
}

static char *with_end(const char *path, const char *end)
{
    size_t size = strlen(path) + strlen(end) + 1;
    char *text = malloc(size);
    if (text)
        snprintf(text, size, "%s%s", path, end);
    return text;
}

static ra_status fill(ra_checkpoint *c, const ra_ring_plan *ring, const ra_checkpoint_options *o, bool *found)
{
    const ra_plan *p = ring->plan;
    c->every = o->every;
    c->saved = ra_seconds();
    c->stop = o->stop;
    c->stop_user = o->stop_user;
    c->rows_file = c->file.fd = -1;
    c->ranks = ring->options.ranks;
    c->batch = p->batch;
    c->q_len = p->q_len;
    c->heads = p->heads;
    c->row_bytes = p->heads * p->value_dim * (int64_t)ra_dtype_size(ring->options.o_dtype);
    c->lse_at = p->batch * p->q_len * c->row_bytes;
    c->path = with_end(o->path, "");
    c->rows_path = with_end(o->path, ".rows");
    c->finished = calloc((size_t)c->ranks, sizeof *c->finished);
    if (!c->path || !c->rows_path || !c->finished)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: a checkpoint of %lld ranks", (long long)c->ranks);
    ra_status status = describe(c, ring, o);
    return status ? status : read_point(c, found);
}

ra_status ra_checkpoint_open(const ra_checkpoint_options *theirs, const ra_ring_plan *ring, ra_checkpoint **checkpoint)
{
    ra_checkpoint_options options = RA_CHECKPOINT_OPTIONS_INIT;
    if (!theirs || !ring || !checkpoint)
        return ra_fail(RA_ERROR_ARGUMENT, "%s is NULL", !theirs ? "options" : !ring ? "plan" : "checkpoint");
    *checkpoint = NULL;
    ra_status status =
        ra_copy_in(&options, sizeof options, theirs, "ra_checkpoint_options", "RA_CHECKPOINT_OPTIONS_INIT");
    if (!status && (!options.path || !*options.path))
        status = ra_fail(RA_ERROR_ARGUMENT, "checkpoint: there is no path");
    if (!status && !(options.every >= 0))
        status = ra_fail(RA_ERROR_ARGUMENT, "checkpoint: every %g seconds: must be 0 or more", options.every);
    if (!status && (ring->options.transport != RA_TRANSPORT_SIM || ring->options.lent))
        status = ra_fail(RA_ERROR_UNSUPPORTED,
                         "checkpoint: transport %s%s: runs of virtual ranks (sim) from and to "
                         "storages can be saved",
                         ra_transport_name(ring->options.transport), ring->options.lent ? ", tensors in memory" : "");
    if (status)
        return status;
    bool found = false;
    ra_checkpoint *c = calloc(1, sizeof *c);
    status = c ? fill(c, ring, &options, &found) : ra_fail(RA_ERROR_MEMORY, "out of memory: a checkpoint");
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
    free(c->rows_path);
    free(c->finished);
    free(c->line);
    free(c);
}

void ra_checkpoint_remove(ra_checkpoint *c)
{
    unlink(c->path);
    unlink(c->rows_path);
    char *left = with_end(c->path, ".new"); /* by a run that was killed while it saved */
    if (left)
        unlink(left);
    free(left);
}

int ra_checkpoint_found(const ra_checkpoint *c)
{
    return c->continues;
}

/* ---- Rows of finished ranks -------------------------------------------------------------------------------------- */

static ra_status fail_rows(const ra_checkpoint *c, const char *doing, int reason)
{
    return ra_fail(RA_ERROR_FILE, "%s: cannot %s: %s", c->rows_path, doing,
                   reason ? strerror(reason) : "the file ends early");
}

static ra_status open_rows(ra_checkpoint *c)
{
    if (c->rows_file >= 0)
        return RA_OK;
    /* What an older run has left of its rows would be taken for this one's only where they are finished: never. */
    c->rows_file = open(c->rows_path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    return c->rows_file < 0 ? fail_rows(c, "open", errno) : RA_OK;
}

/* Bytes of the rows file, either way. */
static ra_status move(ra_checkpoint *c, bool writing, int64_t at, void *data, int64_t bytes)
{
    for (char *here = data; bytes > 0;) {
        ssize_t moved =
            writing ? pwrite(c->rows_file, here, (size_t)bytes, at) : pread(c->rows_file, here, (size_t)bytes, at);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved <= 0)
            return fail_rows(c, writing ? "write" : "read", moved < 0 ? errno : writing ? ENOSPC : 0);
        here += moved;
        at += moved;
        bytes -= moved;
    }
    return RA_OK;
}

/* The sum of rows does not depend on how they were divided: each is hashed with its place. */
static uint64_t sum_of(const void *rows, int64_t count, int64_t bytes, int64_t place)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += ra_saved_hash((uint64_t)(place + i), (const char *)rows + i * bytes, bytes);
    return sum;
}

/* Rows `first` on of both results, to or from the file; returns their sum in *sum. */
static ra_status move_rows(ra_checkpoint *c, bool writing, int64_t first, const ra_tensor *output, const ra_tensor *lse,
                           uint64_t *sum)
{
    enum { LSE_BYTES = sizeof(float) };
    int64_t rows = output->seq;
    ra_status status = open_rows(c);
    for (int64_t batch = 0; batch < c->batch && !status; batch++) {
        int64_t place = batch * c->q_len + first;
        char *data = (char *)output->data + batch * rows * c->row_bytes;
        status = move(c, writing, place * c->row_bytes, data, rows * c->row_bytes);
        *sum += sum_of(data, rows, c->row_bytes, place);
        for (int64_t head = 0; lse && head < c->heads && !status; head++) {
            place = (batch * c->heads + head) * c->q_len + first;
            data = (char *)lse->data + (batch * c->heads + head) * rows * LSE_BYTES;
            status = move(c, writing, c->lse_at + place * LSE_BYTES, data, rows * LSE_BYTES);
            *sum += sum_of(data, rows, LSE_BYTES, -1 - place);
        }
    }
    return status;
}

ra_status ra_checkpoint_rows(ra_checkpoint *c, int rank, int64_t first, const ra_tensor *output, const ra_tensor *lse)
{
    c->rows_changed = true;
    return move_rows(c, true, first, output, lse, &c->finished[rank].sum);
}

void ra_checkpoint_rank_done(ra_checkpoint *c, int rank, const ra_rank_stats *stats)
{
    c->finished[rank].stats = *stats;
    c->done = rank + 1;
}

/* Rows first <= i < end of the file into storage. */
static ra_status restore_range(ra_checkpoint *c, const ra_plan *p, const ra_tensors *t, int64_t first, int64_t end,
                               char *buffer, uint64_t *sum)
{
    ra_dtype dtype = ra_storage_view(t->output)->dtype;
    int64_t each = c->batch * (c->row_bytes + c->heads * (int64_t)sizeof(float));
    int64_t most = ra_max(1, BUFFER_BYTES / each);
    ra_status status = RA_OK;
    for (int64_t at = first, rows; at < end && !status; at += rows) {
        rows = ra_min(most, end - at);
        ra_tensor output = ra_tensor_dense(buffer, dtype, RA_BSHD, p->batch, rows, p->heads, p->value_dim);
        ra_tensor lse =
            ra_tensor_dense(buffer + c->batch * rows * c->row_bytes, RA_F32, RA_BHSD, p->batch, rows, p->heads, 1);
        status = move_rows(c, false, at, &output, t->lse ? &lse : NULL, sum);
        for (int64_t batch = 0; batch < p->batch && !status; batch++) {
            ra_tensor part = output, lse_part = lse;
            part.data = (char *)output.data + batch * rows * c->row_bytes;
            lse_part.data = (char *)lse.data + batch * rows * c->heads * (int64_t)sizeof(float);
            part.batch = lse_part.batch = 1;
            status = ra_storage_write(t->output, batch, at, rows, &part);
            if (!status && t->lse)
                status = ra_storage_write(t->lse, batch, at, rows, &lse_part);
        }
    }
    return status;
}

ra_status ra_checkpoint_restore_rows(ra_checkpoint *c, const ra_ring_plan *ring, const ra_tensors *t)
{
    const ra_plan *p = ring->plan;
    char *buffer = malloc((size_t)ra_max(BUFFER_BYTES, c->batch * (c->row_bytes + c->heads * (int64_t)sizeof(float))));
    ra_status status = buffer ? RA_OK : ra_fail(RA_ERROR_MEMORY, "out of memory: rows of a checkpoint");
    for (int rank = 0; rank < c->done && !status; rank++) {
        ra_share queries = ra_partition_share(&ring->queries, rank);
        uint64_t sum = 0;
        for (int64_t i = 0; i < queries.ranges && !status; i++) {
            ra_range range = ra_share_range(&queries, i);
            status = restore_range(c, p, t, range.first, range.end, buffer, &sum);
        }
        if (!status && sum != c->finished[rank].sum)
            status = ra_fail(RA_ERROR_FORMAT, "%s: is damaged: the rows of rank %d are not those that were saved",
                             c->rows_path, rank);
    }
    free(buffer);
    return status;
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
        return ra_fail(RA_ERROR_FORMAT, "%s: states of %lld bytes where this run has %lld", c->path,
                       (long long)c->point.state_bytes, (long long)bytes);
    return ra_saved_read(&c->file, states, bytes);
}

bool ra_checkpoint_due(ra_checkpoint *c, bool *stop)
{
    *stop = c->stop && c->stop(c->stop_user);
    return *stop || ra_seconds() - c->saved >= c->every;
}

ra_status ra_checkpoint_save(ra_checkpoint *c, const ra_point *point, const void *states)
{
    ra_saved_file f;
    if (c->rows_changed && fdatasync(c->rows_file) != 0)
        return fail_rows(c, "write", errno);
    c->rows_changed = false;
    ra_status status = ra_saved_begin(&f, c->path);
    if (!status)
        status = ra_saved_write(&f, MAGIC, sizeof MAGIC);
    if (!status)
        status = ra_saved_write(&f, &c->lines, sizeof c->lines);
    for (int i = 0; i < c->lines && !status; i++)
        status = ra_saved_write(&f, c->line[i], LINE);
    if (!status)
        status = ra_saved_write(&f, point, sizeof *point);
    if (!status)
        status = ra_saved_write(&f, c->finished, point->rank * (int64_t)sizeof *c->finished);
    if (!status)
        status = ra_saved_write(&f, states, point->state_bytes);
    if (!status)
        status = ra_saved_finish(&f);
    ra_saved_close(&f);
    c->saved = ra_seconds();
    return status;
}
