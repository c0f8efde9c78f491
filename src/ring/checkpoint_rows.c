/* SPDX-License-Identifier: Apache-2.0 */
/* The results of virtual ranks that are finished, in a file beside the checkpoint. */
#include "base/checked.h"
#include "ring/checkpoint.h"
#include "ring/checkpoint_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 20 };

static ra_status fail_rows(const ra_checkpoint *c, const char *doing, int reason)
{
    return ra_fail(RA_ERROR_FILE, "%s: cannot %s: %s", c->rows_path, doing, strerror(reason));
}

static ra_status open_rows(ra_checkpoint *c, bool writing)
{
    if (c->rows_file >= 0)
        return RA_OK;
    /* Rows that an older run left in the file are harmless: only rows of finished ranks are read. */
    c->rows_file = open(c->rows_path, O_RDWR | (writing ? O_CREAT : 0) | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (c->rows_file < 0 && errno == ENOENT && !writing)
        return ra_fail(RA_ERROR_FORMAT, "%s: is missing: %s says that %lld ranks are finished", c->rows_path, c->path,
                       (long long)c->done);
    return c->rows_file < 0 ? fail_rows(c, "open", errno) : RA_OK;
}

ra_status ra_checkpoint_probe_rows(const ra_checkpoint *c)
{
    int fd = open(c->rows_path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? RA_OK : fail_rows(c, "open", errno);
    close(fd);
    return RA_OK;
}

/* Read or write bytes of the rows file. */
static ra_status move(ra_checkpoint *c, bool writing, int64_t at, void *data, int64_t bytes)
{
    for (char *here = data; bytes > 0;) {
        ssize_t moved =
            writing ? pwrite(c->rows_file, here, (size_t)bytes, at) : pread(c->rows_file, here, (size_t)bytes, at);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved == 0 && !writing)
            return ra_fail(RA_ERROR_FORMAT, "%s: is damaged: it ends at byte %lld", c->rows_path, (long long)at);
        if (moved <= 0)
            return fail_rows(c, writing ? "write" : "read", moved < 0 ? errno : ENOSPC);
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
    ra_status status = open_rows(c, writing);
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

void ra_checkpoint_attach(ra_checkpoint *c, const ra_ring_plan *ring, const ra_tensors *tensors)
{
    c->ring = ring;
    c->tensors = tensors;
}

void ra_checkpoint_rows(ra_checkpoint *c, int rank, int64_t first, const ra_tensor *output, const ra_tensor *lse)
{
    c->rows_changed = true;
    if (c->missing < 0 && move_rows(c, true, first, output, lse, &c->finished[rank].sum))
        c->missing = rank;
}

void ra_checkpoint_rank_done(ra_checkpoint *c, int rank, const ra_rank_stats *stats)
{
    c->finished[rank].stats = *stats;
    c->done = rank + 1;
}

/* ---- Between the file and storage -------------------------------------------------------------------------------- */

/* Rows of one batch of both results, to storage or from it. */
static ra_status move_storage(const ra_tensors *t, bool to_storage, int64_t batch, int64_t at, const ra_tensor *output,
                              const ra_tensor *lse)
{
    ra_status status = to_storage ? ra_storage_write(t->output, batch, at, output->seq, output)
                                  : ra_storage_read(t->output, batch, at, output->seq, 0, output);
    if (status || !t->lse)
        return status;
    return to_storage ? ra_storage_write(t->lse, batch, at, lse->seq, lse)
                      : ra_storage_read(t->lse, batch, at, lse->seq, 0, lse);
}

/* The same of all batches, which lie one after the other in memory. */
static ra_status move_batches(const ra_checkpoint *c, const ra_tensors *t, bool to_storage, int64_t at,
                              const ra_tensor *output, const ra_tensor *lse)
{
    int64_t rows = output->seq;
    ra_status status = RA_OK;
    for (int64_t batch = 0; batch < c->batch && !status; batch++) {
        ra_tensor part = *output, lse_part = *lse;
        part.data = (char *)output->data + batch * rows * c->row_bytes;
        lse_part.data = (char *)lse->data + batch * rows * c->heads * (int64_t)sizeof(float);
        part.batch = lse_part.batch = 1;
        status = move_storage(t, to_storage, batch, at, &part, &lse_part);
    }
    return status;
}

static int64_t bytes_of_rows(const ra_checkpoint *c, int64_t rows)
{
    return rows * c->batch * (c->row_bytes + c->heads * (int64_t)sizeof(float));
}

/* Rows first <= i < end between the file and storage. */
static ra_status copy_range(ra_checkpoint *c, const ra_plan *p, const ra_tensors *t, bool to_storage, ra_range range,
                            char *buffer, uint64_t *sum)
{
    ra_dtype dtype = ra_storage_view(t->output)->dtype;
    int64_t most = ra_max(1, BUFFER_BYTES / bytes_of_rows(c, 1));
    ra_status status = RA_OK;
    for (int64_t at = range.first, rows; at < range.end && !status; at += rows) {
        rows = ra_min(most, range.end - at);
        ra_tensor output = ra_tensor_dense(buffer, dtype, RA_BSHD, p->batch, rows, p->heads, p->value_dim);
        ra_tensor lse =
            ra_tensor_dense(buffer + c->batch * rows * c->row_bytes, RA_F32, RA_BHSD, p->batch, rows, p->heads, 1);
        if (!to_storage)
            status = move_batches(c, t, false, at, &output, &lse);
        if (!status)
            status = move_rows(c, !to_storage, at, &output, t->lse ? &lse : NULL, sum);
        if (!status && to_storage)
            status = move_batches(c, t, true, at, &output, &lse);
    }
    return status;
}

/* All rows of a rank, and their sum. */
static ra_status copy_rank(ra_checkpoint *c, const ra_ring_plan *ring, const ra_tensors *t, bool to_storage, int rank,
                           uint64_t *sum)
{
    char *buffer = malloc((size_t)ra_max(BUFFER_BYTES, bytes_of_rows(c, 1)));
    ra_status status = buffer ? RA_OK : ra_fail(RA_ERROR_MEMORY, "out of memory: rows of a checkpoint");
    ra_share queries = ra_partition_share(&ring->queries, rank);
    *sum = 0;
    for (int64_t i = 0; i < queries.ranges && !status; i++)
        status = copy_range(c, ring->plan, t, to_storage, ra_share_range(&queries, i), buffer, sum);
    free(buffer);
    return status;
}

ra_status ra_checkpoint_restore_rows(ra_checkpoint *c, const ra_ring_plan *ring, const ra_tensors *t)
{
    ra_status status = RA_OK;
    for (int rank = 0; rank < c->done && !status; rank++) {
        uint64_t sum;
        status = copy_rank(c, ring, t, true, rank, &sum);
        if (!status && sum != c->finished[rank].sum)
            status = ra_fail(RA_ERROR_FORMAT, "%s: is damaged: the rows of rank %d are not those that were saved",
                             c->rows_path, rank);
    }
    return status;
}

/* Write the rows that could not be written when their rank was finished: they are read from the output. */
static ra_status write_missing(ra_checkpoint *c)
{
    ra_status status = RA_OK;
    while (c->missing >= 0 && c->missing < c->done && !status) {
        status = copy_rank(c, c->ring, c->tensors, false, (int)c->missing, &c->finished[c->missing].sum);
        c->missing += !status;
    }
    if (status == RA_ERROR_ARGUMENT)
        return ra_fail(
            RA_ERROR_FILE,
            "%s: rows of rank %lld could not be written when they were there, and the output is kept nowhere",
            c->rows_path, (long long)c->missing);
    c->missing = c->missing == c->done ? -1 : c->missing;
    return status;
}

ra_status ra_checkpoint_flush_rows(ra_checkpoint *c)
{
    ra_status status = write_missing(c);
    if (status || !c->rows_changed)
        return status;
    if (fdatasync(c->rows_file) != 0) {
        /* The system may have dropped data that it could not write, and reports that only once. */
        c->missing = c->flushed < c->done ? c->flushed : -1;
        return fail_rows(c, "write", errno);
    }
    c->flushed = c->done;
    c->rows_changed = false;
    return RA_OK;
}
