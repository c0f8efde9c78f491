/* The results of virtual ranks that are finished, in a file beside the checkpoint. */
#include "base/checked.h"
#include "ring/checkpoint_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 20 };

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
    int64_t rows = output->seq, lse_places = c->batch * c->q_len; /* behind those of the outputs */
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
            *sum += sum_of(data, rows, LSE_BYTES, lse_places + place);
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

ra_status ra_checkpoint_flush_rows(ra_checkpoint *c)
{
    if (c->rows_changed && fdatasync(c->rows_file) != 0)
        return fail_rows(c, "write", errno);
    c->rows_changed = false;
    return RA_OK;
}
