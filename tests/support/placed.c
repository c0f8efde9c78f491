/* SPDX-License-Identifier: Apache-2.0 */
/* Places tensors in memory of their own. See placed.h. */
#include "support/placed.h"

#include "support/unit.h"

#include <stdlib.h>
#include <string.h>

static void *take(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);
    assert_non_null(memory);
    return memory;
}

void fill_tensor(const ra_tensor *t, uint64_t seed)
{
    float *row = take((size_t)t->dim * sizeof *row);
    for (int64_t i = 0; i < t->batch * t->seq * t->heads; i++) {
        ra_generate(RA_NORMAL, seed, i * t->dim, t->dim, row);
        for (int64_t d = 0; d < t->dim; d++)
            ra_tensor_set(t, i / t->heads / t->seq, i / t->heads % t->seq, i % t->heads, d, row[d]);
    }
    free(row);
}

/* Memory for a view whose strides are those of axes laid out from order[3], the innermost, to order[0]. */
static placed place(ra_dtype dtype, const int64_t shape[4], const int order[4], const int64_t padding[4],
                    const bool turned[4], const bool broadcast[4])
{
    int64_t stride[4], count = 1, origin = 0, size = (int64_t)ra_dtype_size(dtype);
    for (int i = 3; i >= 0; i--) {
        int axis = order[i];
        stride[axis] = broadcast[axis] ? 0 : count;
        if (broadcast[axis])
            continue;
        int64_t end = (shape[axis] - 1) * count;
        if (turned[axis]) {
            origin += end;
            stride[axis] = -stride[axis];
        }
        count = end + count + padding[axis];
    }
    placed p = {.bytes = (size_t)(count * size)};
    p.memory = take(p.bytes);
    memset(p.memory, 0xff, p.bytes); /* NaN in every dtype: padding that is read will show */
    p.view = (ra_tensor){(char *)p.memory + origin * size,
                         dtype,
                         shape[0],
                         shape[1],
                         shape[2],
                         shape[3],
                         stride[0],
                         stride[1],
                         stride[2],
                         stride[3]};
    return p;
}

placed place_dense(const int64_t shape[4])
{
    static const int order[4] = {0, 1, 2, 3};
    static const int64_t padding[4] = {0};
    static const bool no[4] = {false};
    return place(RA_F32, shape, order, padding, no, no);
}

static void choose_order(choices *c, int order[4])
{
    static const int usual[2][4] = {{0, 1, 2, 3}, {0, 2, 1, 3}};
    memcpy(order, usual[choose(c, 0, 1)], sizeof usual[0]);
    for (int i = 3; i > 0 && chance(c, 2); i--) {
        int64_t j = choose(c, 0, i);
        int axis = order[i];
        order[i] = order[j];
        order[j] = axis;
    }
}

placed place_any(choices *c, const int64_t shape[4], int dtype, int constant)
{
    bool plain = chance(c, 2), turned[4], broadcast[4];
    int order[4];
    int64_t padding[4];
    if (dtype == ANY_DTYPE)
        dtype = chance(c, 2) ? RA_F32 : chance(c, 2) ? RA_F16 : RA_BF16;
    choose_order(c, order);
    for (int axis = 0; axis < 4; axis++) {
        padding[axis] = plain ? 0 : choose(c, 0, 5);
        turned[axis] = !plain && chance(c, 6);
        broadcast[axis] = !plain && constant > 0 && chance(c, 12) && axis < constant;
    }
    return place((ra_dtype)dtype, shape, order, padding, turned, broadcast);
}

bool placed_padding_kept(const placed *p)
{
    const ra_tensor *t = &p->view;
    size_t size = ra_dtype_size(t->dtype);
    unsigned char *after = take(p->bytes);
    memcpy(after, p->memory, p->bytes);
    for (int64_t row = 0; row < t->batch * t->seq * t->heads; row++)
        for (int64_t d = 0; d < t->dim; d++) {
            int64_t at = row / t->heads / t->seq * t->batch_stride + row / t->heads % t->seq * t->seq_stride +
                         row % t->heads * t->head_stride + d * t->dim_stride;
            int64_t origin = (const char *)t->data - (const char *)p->memory;
            memset(after + origin + at * (int64_t)size, 0xff, size);
        }
    bool kept = true;
    for (size_t i = 0; i < p->bytes; i++)
        kept &= after[i] == 0xff;
    free(after);
    return kept;
}
