/* SPDX-License-Identifier: Apache-2.0 */
/* Makes tensors of any strides. See views.h. */
#include "views.h"

#include "support/unit.h"

#include <stdlib.h>
#include <string.h>

void block_fill(block *b, uint64_t seed)
{
    choices c = {seed};
    for (int64_t i = 0; i < b->bytes; i++)
        b->memory[i] = (char)choose_bits(&c);
}

block any_view(choices *c, ra_dtype dtype, int64_t batch, int64_t seq, int64_t heads, int64_t dim)
{
    block b = {.view = {.dtype = dtype, .batch = batch, .seq = seq, .heads = heads, .dim = dim}};
    ra_tensor *t = &b.view;
    struct {
        int64_t extent, *stride;
    } axes[] = {{batch, &t->batch_stride}, {seq, &t->seq_stride}, {heads, &t->head_stride}, {dim, &t->dim_stride}};
    int order[] = {0, 1, 2, 3}, kind = (int)choose(c, 0, 3);
    for (int i = 3; i > 0; i--) { /* kind 0: as [batch, seq, heads, dim]; 1: heads first; else anything */
        int other = kind < 2 ? i : (int)choose(c, 0, i), was = order[i];
        order[i] = order[other], order[other] = was;
    }
    if (kind == 1)
        order[1] = 2, order[2] = 1;
    int64_t next = 1, origin = 0, size = (int64_t)ra_dtype_size(dtype);
    for (int i = 3; i >= 0; i--) {
        int64_t step = next + (chance(c, 4) ? choose(c, 1, 3) : 0), extent = axes[order[i]].extent;
        bool backwards = kind == 3 && chance(c, 3);
        *axes[order[i]].stride = backwards ? -step : step;
        origin += backwards ? step * (extent - 1) : 0;
        next = step * (extent - 1) + next;
    }
    b.bytes = next * size;
    b.memory = malloc((size_t)b.bytes);
    assert_non_null(b.memory);
    t->data = b.memory + origin * size;
    return b;
}

char *element(const ra_tensor *t, int64_t batch, int64_t row, int64_t head, int64_t d)
{
    return (char *)t->data +
           (batch * t->batch_stride + row * t->seq_stride + head * t->head_stride + d * t->dim_stride) *
               (int64_t)ra_dtype_size(t->dtype);
}

void copy_naively(const ra_tensor *to, int64_t to_batch, int64_t to_first, const ra_tensor *from, int64_t from_batch,
                  int64_t from_first, int64_t count)
{
    for (int64_t row = 0; row < count; row++)
        for (int64_t head = 0; head < to->heads; head++)
            for (int64_t d = 0; d < to->dim; d++)
                memcpy(element(to, to_batch, to_first + row, head, d),
                       element(from, from_batch, from_first + row, head, d), ra_dtype_size(to->dtype));
}

block twin(const block *b)
{
    block copy = *b;
    copy.memory = malloc((size_t)b->bytes);
    assert_non_null(copy.memory);
    memcpy(copy.memory, b->memory, (size_t)b->bytes);
    copy.view.data = copy.memory + ((char *)b->view.data - b->memory);
    return copy;
}

ra_tensor some_heads(const ra_tensor *t, int64_t head, int64_t count)
{
    ra_tensor part = *t;
    part.data = element(t, 0, 0, head, 0);
    part.heads = count;
    return part;
}

void read_any_range(choices *c, ra_storage *storage, const ra_tensor *whole, uint64_t seed)
{
    int64_t batch = choose(c, 0, whole->batch - 1), first = choose(c, 0, whole->seq - 1), head = 0;
    int64_t count = chance(c, 3) ? whole->seq - first : choose(c, 0, whole->seq - first), heads = whole->heads;
    if (chance(c, 4))
        first = 0, count = whole->seq;
    if (chance(c, 2)) {
        head = choose(c, 0, whole->heads - 1);
        heads = choose(c, 1, whole->heads - head);
    }
    block view = any_view(c, whole->dtype, 1, count ? count : 1, heads, whole->dim);
    block_fill(&view, choose_bits(c));
    view.view.seq = count;
    block expected = twin(&view);
    ra_tensor part = some_heads(whole, head, heads);
    copy_naively(&expected.view, 0, 0, &part, batch, first, count);
    assert_int_equal(ra_storage_read(storage, batch, first, count, head, &view.view), RA_OK);
    REQUIRE(memcmp(view.memory, expected.memory, (size_t)view.bytes) == 0,
            "seed %llu: rows %lld + %lld of batch %lld, heads %lld + %lld", (unsigned long long)seed, (long long)first,
            (long long)count, (long long)batch, (long long)head, (long long)heads);
    free(expected.memory);
    free(view.memory);
}
