/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows between a storage and a view in memory. Both sides are described as blocks of lines of elements, with a step
 * from one to the next, and neighbours that lie together on both sides become one. Memory is then copied line by line.
 * In a file, or made-up data, the lines of a block always lie together: long lines move directly between file and view,
 * short ones through the staging buffer, many at a time.
 */
#include "io/storage.h"

#include "base/checked.h"
#include "base/tensor.h"
#include "io/array.h"
#include "io/backing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STAGING_BYTES = 1 << 18,
    DIRECT_BYTES = 1 << 16 /* a line that is worth a call of its own */
};

/* ---- Making and freeing ------------------------------------------------------------------------------------------ */

ra_status ra_storage_new(const ra_tensor *view, int64_t staging, ra_storage **storage)
{
    *storage = NULL;
    ra_storage *s = calloc(1, sizeof *s);
    if (!s)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: %zu bytes for a storage", sizeof *s);
    s->view = *view;
    if (staging > 0) {
        void *block;
        ra_status status = ra_memory_take(&s->bytes, staging, "the staging of a storage", &block);
        if (status) {
            free(s);
            return status;
        }
        s->staging_bytes = staging;
        s->staging = block;
    }
    *storage = s;
    return RA_OK;
}

void ra_storage_free(ra_storage *s)
{
    if (!s)
        return;
    ra_memory_give(&s->bytes, s->staging, s->staging_bytes);
    free(s);
}

/* False: there are more than can be addressed. */
static bool count_elements(const ra_tensor *t, int64_t *count)
{
    int64_t bytes;
    return ra_mul_ok(t->batch, t->seq, count) && ra_mul_ok(*count, t->heads, count) &&
           ra_mul_ok(*count, t->dim, count) && ra_mul_ok(*count, (int64_t)ra_dtype_size(t->dtype), &bytes);
}

static ra_status check_extents(const ra_tensor *t)
{
    if (!t)
        return ra_fail(RA_ERROR_ARGUMENT, "storage: the tensor is NULL");
    if (t->batch < 0 || t->seq < 0 || t->heads < 1 || t->dim < 1)
        return ra_fail(RA_ERROR_ARGUMENT,
                       "storage: [batch %lld, seq %lld, heads %lld, dim %lld]: must be at least [0, 0, 1, 1]",
                       (long long)t->batch, (long long)t->seq, (long long)t->heads, (long long)t->dim);
    return RA_OK;
}

ra_status ra_storage_check_place(ra_storage **storage)
{
    if (!storage)
        return ra_fail(RA_ERROR_ARGUMENT, "storage: the pointer to the result is NULL");
    *storage = NULL;
    return RA_OK;
}

ra_status ra_storage_check_shape(const ra_tensor *t)
{
    int64_t count;
    ra_status status = check_extents(t);
    if (!status && t->dtype != RA_F32 && t->dtype != RA_F16 && t->dtype != RA_BF16)
        status = ra_fail(RA_ERROR_ARGUMENT, "storage: dtype %s: must be float32, float16 or bfloat16",
                         ra_dtype_name(t->dtype));
    if (!status && !count_elements(t, &count))
        status = ra_fail(RA_ERROR_ARGUMENT,
                         "storage: [batch %lld, seq %lld, heads %lld, dim %lld]: more bytes than 64 bits can count",
                         (long long)t->batch, (long long)t->seq, (long long)t->heads, (long long)t->dim);
    return status;
}

ra_status ra_storage_memory(const ra_tensor *tensor, ra_storage **storage)
{
    ra_status status = ra_storage_check_place(storage);
    if (!status)
        status = check_extents(tensor);
    if (!status)
        status = ra_tensor_check(tensor, "storage", tensor->batch, tensor->seq, tensor->heads, tensor->dim);
    return status ? status : ra_storage_new(tensor, 0, storage);
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

/* The view with the strides of a layout, if it has them wherever there is more than one of something. */
static bool lies_as(ra_tensor *t, ra_layout layout)
{
    ra_tensor d = ra_tensor_dense(NULL, t->dtype, layout, t->batch, t->seq, t->heads, t->dim);
    if ((t->batch > 1 && t->batch_stride != d.batch_stride) || (t->seq > 1 && t->seq_stride != d.seq_stride) ||
        (t->heads > 1 && t->head_stride != d.head_stride) || (t->dim > 1 && t->dim_stride != d.dim_stride))
        return false;
    *t = d;
    return true;
}

ra_status ra_storage_check_dense(const char *name, ra_tensor *t)
{
    if (!lies_as(t, RA_BSHD) && !lies_as(t, RA_BHSD))
        return ra_fail(RA_ERROR_ARGUMENT,
                       "%s: strides [%lld, %lld, %lld, %lld] are neither of a dense [batch, seq, heads, dim] nor of a "
                       "dense [batch, heads, seq, dim]",
                       name, (long long)t->batch_stride, (long long)t->seq_stride, (long long)t->head_stride,
                       (long long)t->dim_stride);
    return RA_OK;
}

/* Checks the view against the array, and completes its strides. */
static ra_status check_view(const ra_array *array, ra_tensor *t)
{
    const char *path = ra_array_path(array);
    ra_array_info info = RA_ARRAY_INFO_INIT;
    int64_t count;
    ra_status status = ra_array_describe(array, &info);
    if (status)
        return status;
    if (t->dtype != info.dtype || (t->dtype != RA_F32 && t->dtype != RA_F16 && t->dtype != RA_BF16))
        return ra_fail(RA_ERROR_ARGUMENT,
                       "%s: dtype %s as a tensor of %s: must be float32, float16 or bfloat16, and the same", path,
                       ra_dtype_name(info.dtype), ra_dtype_name(t->dtype));
    if (!count_elements(t, &count) || count != info.count)
        return ra_fail(
            RA_ERROR_ARGUMENT, "%s: has %lld elements, which is not [batch %lld, seq %lld, heads %lld, dim %lld]", path,
            (long long)info.count, (long long)t->batch, (long long)t->seq, (long long)t->heads, (long long)t->dim);
    return ra_storage_check_dense(path, t);
}

/* As many rows of all heads as fit, but no more than there are; of a row that is too long, as many heads or elements.
 */
static int64_t staging_bytes(const ra_tensor *view)
{
    int64_t line = view->dim * (int64_t)ra_dtype_size(view->dtype), row = view->heads * line;
    if (row <= STAGING_BYTES)
        return ra_min(STAGING_BYTES / row, view->seq) * row;
    return line <= STAGING_BYTES ? STAGING_BYTES / line * line : STAGING_BYTES;
}

int64_t ra_storage_array_bytes(const ra_tensor *view)
{
    return ra_memory_rounded(staging_bytes(view));
}

static ra_status move_file(const ra_storage *s, bool writing, int64_t first, int64_t count, void *elements)
{
    return writing ? ra_array_write(s->array, first, count, elements) : ra_array_read(s->array, first, count, elements);
}

static ra_status describe_file(const ra_storage *s, char *text, size_t size)
{
    return ra_array_fingerprint(s->array, text, size);
}

ra_status ra_storage_array(ra_array *array, const ra_tensor *view, ra_storage **storage)
{
    ra_status status = ra_storage_check_place(storage);
    if (!status && !array)
        status = ra_fail(RA_ERROR_ARGUMENT, "storage: the array is NULL");
    if (!status)
        status = check_extents(view);
    if (status)
        return status;
    ra_tensor checked = *view;
    checked.data = NULL;
    status = check_view(array, &checked);
    if (!status)
        status = ra_storage_new(&checked, staging_bytes(&checked), storage);
    if (status)
        return status;
    (*storage)->array = array;
    (*storage)->move = move_file;
    (*storage)->describe = describe_file;
    return RA_OK;
}

/* ---- Asking ------------------------------------------------------------------------------------------------------ */

const ra_tensor *ra_storage_view(const ra_storage *s)
{
    return &s->view;
}

int64_t ra_storage_bytes(const ra_storage *s)
{
    return s->bytes.bytes;
}

ra_status ra_storage_fingerprint(const ra_storage *s, char *text, size_t size)
{
    if (!s || !text || size == 0)
        return ra_fail(RA_ERROR_ARGUMENT, "storage: %s", !s ? "it is NULL" : "there is no room for its fingerprint");
    text[0] = 0;
    ra_status status = s->describe ? s->describe(s, text, size) : RA_OK;
    size_t used = strlen(text);
    ra_tensor view = s->view;
    if (!status && s->describe && !lies_as(&view, RA_BSHD))
        snprintf(text + used, size - used, ", bhsd");
    return status;
}

/* ---- Lines ------------------------------------------------------------------------------------------------------- */

/* One side: bytes from its first element on, and from one block, line or element to the next. */
typedef struct side {
    int64_t at, block, line, element;
} side;

typedef struct transfer {
    int64_t blocks, lines, elements; /* elements in a line, lines in a block */
    int64_t size;                    /* bytes in an element */
    side kept, view; /* the storage's side (`at` counts from its data or its first element), the caller's */
    char *memory;    /* the caller's */
    bool writing;
} transfer;

/* The element after the last of a line is the first of the next one, on this side. */
static bool lines_touch(const transfer *t, const side *s)
{
    return (t->elements == 1 || s->element == t->size) && (t->lines == 1 || s->line == t->elements * t->size);
}

static bool blocks_touch(const transfer *t, const side *s)
{
    return t->blocks == 1 || s->block == t->lines * t->elements * t->size;
}

/* Lines of one element are turned into one line of elements: its elements then move in one loop. */
static void lengthen_lines(transfer *t)
{
    if (t->elements > 1)
        return;
    t->elements = t->lines;
    t->kept.element = t->kept.line;
    t->view.element = t->view.line;
    t->lines = 1;
}

/* What lies together on both sides becomes longer lines, and fewer. */
static void join_lines(transfer *t)
{
    lengthen_lines(t);
    if (!lines_touch(t, &t->kept) || !lines_touch(t, &t->view))
        return;
    bool all = blocks_touch(t, &t->kept) && blocks_touch(t, &t->view);
    t->elements *= t->lines * (all ? t->blocks : 1);
    t->lines = 1;
    t->blocks = all ? 1 : t->blocks;
    t->kept.element = t->view.element = t->size;
}

static side side_of(const ra_tensor *t, bool by_rows, int64_t batch, int64_t first)
{
    /* The stride of something that there is one of may be any number, and is not multiplied. */
    int64_t size = (int64_t)ra_dtype_size(t->dtype), at = (batch * t->batch_stride + first * t->seq_stride) * size;
    int64_t row = t->seq > 1 ? t->seq_stride * size : 0, head = t->heads > 1 ? t->head_stride * size : 0;
    return (side){at, by_rows ? row : head, by_rows ? head : row, t->dim > 1 ? t->dim_stride * size : 0};
}

static int64_t magnitude(int64_t x)
{
    return x < 0 ? -x : x;
}

static transfer plan_transfer(const ra_storage *s, int64_t batch, int64_t first, int64_t count, int64_t head,
                              const ra_tensor *view, bool writing)
{
    const ra_tensor *kept = &s->view;
    /* Blocks of what is farther apart in the storage: a file is walked as it lies. */
    bool by_rows = kept->heads > 1 && (kept->seq == 1 || magnitude(kept->seq_stride) > magnitude(kept->head_stride));
    transfer t = {.blocks = by_rows ? count : view->heads,
                  .lines = by_rows ? view->heads : count,
                  .elements = kept->dim,
                  .size = (int64_t)ra_dtype_size(kept->dtype),
                  .kept = side_of(kept, by_rows, batch, first),
                  .view = side_of(view, by_rows, 0, 0),
                  .memory = view->data,
                  .writing = writing};
    t.kept.at += head * (kept->heads > 1 ? kept->head_stride * t.size : 0);
    join_lines(&t);
    return t;
}

/* `count` elements from one side to the other; a step is the bytes from one element to the next. */
static void copy_elements(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t count, int64_t size)
{
    if (count == 1 || (to_step == size && from_step == size))
        memcpy(to, from, (size_t)(count * size));
    else if (size == 2)
        for (int64_t i = 0; i < count; i++)
            memcpy(to + i * to_step, from + i * from_step, 2);
    else
        for (int64_t i = 0; i < count; i++)
            memcpy(to + i * to_step, from + i * from_step, 4);
}

static void copy_either_way(const transfer *t, char *kept, int64_t kept_step, char *view, int64_t count)
{
    if (t->writing)
        copy_elements(kept, kept_step, view, t->view.element, count, t->size);
    else
        copy_elements(view, t->view.element, kept, kept_step, count, t->size);
}

static char *view_line(const transfer *t, int64_t block, int64_t line)
{
    return t->memory + (t->view.at + block * t->view.block + line * t->view.line);
}

/* ---- Moving them ------------------------------------------------------------------------------------------------- */

static void move_in_memory(const transfer *t, char *data)
{
    for (int64_t block = 0; block < t->blocks; block++)
        for (int64_t line = 0; line < t->lines; line++) {
            char *kept = data + (t->kept.at + block * t->kept.block + line * t->kept.line);
            copy_either_way(t, kept, t->kept.element, view_line(t, block, line), t->elements);
        }
}

/* `bytes` of the storage from byte `at` of its elements on. */
static ra_status move_bytes(const ra_storage *s, const transfer *t, int64_t at, int64_t bytes, char *memory)
{
    return s->move(s, t->writing, at / t->size, bytes / t->size, memory);
}

static ra_status move_directly(const ra_storage *s, const transfer *t)
{
    ra_status status = RA_OK;
    for (int64_t block = 0; block < t->blocks && !status; block++)
        for (int64_t line = 0; line < t->lines && !status; line++)
            status = move_bytes(s, t, t->kept.at + block * t->kept.block + line * t->kept.line, t->elements * t->size,
                                view_line(t, block, line));
    return status;
}

/* Elements first .. first + count - 1, counted from the start of a block in the order of the file. */
static void move_staged_elements(const transfer *t, int64_t block, int64_t first, int64_t count, char *staging)
{
    int64_t line = first / t->elements, skip = first % t->elements;
    block += line / t->lines;
    line %= t->lines;
    while (count > 0) {
        int64_t some = ra_min(t->elements - skip, count);
        copy_either_way(t, staging, t->size, view_line(t, block, line) + skip * t->view.element, some);
        staging += some * t->size;
        count -= some;
        skip = 0;
        if (++line == t->lines)
            line = 0, block++;
    }
}

/* `count` elements that lie together in the file, from the start of a block on. */
static ra_status move_span(const ra_storage *s, const transfer *t, int64_t block, int64_t count)
{
    int64_t most = s->staging_bytes / t->size, at = t->kept.at + block * t->kept.block;
    ra_status status = RA_OK;
    for (int64_t done = 0; done < count && !status; done += most) {
        int64_t some = ra_min(most, count - done);
        if (t->writing)
            move_staged_elements(t, block, done, some, s->staging);
        status = move_bytes(s, t, at + done * t->size, some * t->size, s->staging);
        if (!status && !t->writing)
            move_staged_elements(t, block, done, some, s->staging);
    }
    return status;
}

static ra_status move_staged(const ra_storage *s, const transfer *t)
{
    int64_t together = blocks_touch(t, &t->kept) ? t->blocks : 1;
    ra_status status = RA_OK;
    for (int64_t block = 0; block < t->blocks && !status; block += together)
        status = move_span(s, t, block, together * t->lines * t->elements);
    return status;
}

static bool worth_direct(const transfer *t)
{
    if (t->elements > 1 && t->view.element != t->size)
        return false;
    bool whole_span = t->lines == 1 && (t->blocks == 1 || !blocks_touch(t, &t->kept));
    return whole_span || t->elements * t->size >= DIRECT_BYTES;
}

static ra_status move_rows(ra_storage *s, const transfer *t)
{
    if (t->blocks == 0 || t->lines == 0 || t->elements == 0)
        return RA_OK;
    if (s->move)
        return worth_direct(t) ? move_directly(s, t) : move_staged(s, t);
    move_in_memory(t, s->view.data);
    return RA_OK;
}

static ra_status check_range(const ra_storage *s, int64_t batch, int64_t first, int64_t count, int64_t head,
                             const ra_tensor *view)
{
    if (!s || !view)
        return ra_fail(RA_ERROR_ARGUMENT, "storage: %s is NULL", s ? "the view of the rows" : "it");
    const ra_tensor *kept = &s->view;
    if (batch < 0 || batch >= kept->batch || first < 0 || count < 0 || first > kept->seq || count > kept->seq - first)
        return ra_fail(RA_ERROR_ARGUMENT,
                       "storage: batch %lld, rows %lld to %lld + %lld: must be within %lld batches of %lld rows",
                       (long long)batch, (long long)first, (long long)first, (long long)count, (long long)kept->batch,
                       (long long)kept->seq);
    if (head < 0 || view->heads < 1 || view->heads > kept->heads - head)
        return ra_fail(RA_ERROR_ARGUMENT, "storage: heads %lld to %lld + %lld: must be within %lld heads",
                       (long long)head, (long long)head, (long long)view->heads, (long long)kept->heads);
    if (view->dtype != kept->dtype || view->batch != 1 || view->seq != count || view->dim != kept->dim)
        return ra_fail(RA_ERROR_ARGUMENT,
                       "storage: a view of %s [%lld, %lld, %lld, %lld]: must be %s [1, %lld, %lld, %lld]",
                       ra_dtype_name(view->dtype), (long long)view->batch, (long long)view->seq, (long long)view->heads,
                       (long long)view->dim, ra_dtype_name(kept->dtype), (long long)count, (long long)view->heads,
                       (long long)kept->dim);
    if (!view->data && count > 0)
        return ra_fail(RA_ERROR_ARGUMENT, "storage: the data of the rows are NULL");
    return RA_OK;
}

ra_status ra_storage_read(ra_storage *s, int64_t batch, int64_t first, int64_t count, int64_t head,
                          const ra_tensor *into)
{
    ra_status status = check_range(s, batch, first, count, head, into);
    if (status)
        return status;
    if (s->take)
        return ra_fail(RA_ERROR_ARGUMENT, "storage: keeps nothing that could be read");
    transfer t = plan_transfer(s, batch, first, count, head, into, false);
    return move_rows(s, &t);
}

bool ra_storage_keeps(const ra_storage *s)
{
    return !s->take;
}

ra_status ra_storage_write_heads(ra_storage *s, int64_t batch, int64_t first, int64_t count, int64_t head,
                                 const ra_tensor *from)
{
    ra_status status = check_range(s, batch, first, count, head, from);
    if (status)
        return status;
    transfer t = plan_transfer(s, batch, first, count, head, from, true);
    return move_rows(s, &t);
}

ra_status ra_storage_write(ra_storage *s, int64_t batch, int64_t first, int64_t count, const ra_tensor *from)
{
    ra_status status = check_range(s, batch, first, count, 0, from);
    if (status)
        return status;
    if (from->heads != s->view.heads)
        return ra_fail(RA_ERROR_ARGUMENT, "storage: rows of %lld heads: all %lld are written", (long long)from->heads,
                       (long long)s->view.heads);
    if (s->take) {
        s->take(s, batch, first, from);
        return RA_OK;
    }
    return ra_storage_write_heads(s, batch, first, count, 0, from);
}
