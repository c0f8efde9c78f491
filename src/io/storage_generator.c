/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that are made up as they are read. */
#include "base/checked.h"
#include "base/status.h"
#include "io/backing.h"

#include <stdio.h>

/* Enough for the generator to run at full speed, and little enough to stay in the first-level cache. */
enum { GENERATOR_STAGING = 1 << 14 };

static ra_status make_elements(const ra_storage *s, bool writing, int64_t first, int64_t count, void *elements)
{
    if (writing)
        return ra_fail(RA_ERROR_ARGUMENT, "storage: made-up data of seed %llu cannot be written",
                       (unsigned long long)s->made.seed);
    return ra_generate_as(s->made.distribution, s->made.seed, first, count, s->view.dtype, elements);
}

static ra_status describe_made(const ra_storage *s, char *text, size_t size)
{
    const ra_tensor *v = &s->view;
    snprintf(text, size, "made up, %s, seed %llu, %s [%lld, %lld, %lld, %lld]",
             s->made.distribution == RA_NORMAL ? "normal" : "uniform", (unsigned long long)s->made.seed,
             ra_dtype_name(v->dtype), (long long)v->batch, (long long)v->seq, (long long)v->heads, (long long)v->dim);
    return RA_OK;
}

ra_status ra_storage_generator(ra_distribution distribution, uint64_t seed, const ra_tensor *view, ra_storage **storage)
{
    ra_status status = ra_storage_check_place(storage);
    if (status)
        return status;
    if (distribution != RA_UNIFORM && distribution != RA_NORMAL)
        return ra_fail(RA_ERROR_ARGUMENT, "storage: distribution %d: must be RA_UNIFORM or RA_NORMAL",
                       (int)distribution);
    status = ra_storage_check_shape(view);
    if (status)
        return status;
    ra_tensor dense = *view;
    dense.data = NULL;
    status = ra_storage_check_dense("storage", &dense);
    /* No more than a file would have: what is planned for files holds here too. */
    int64_t batch_bytes = dense.seq * dense.heads * dense.dim * (int64_t)ra_dtype_size(dense.dtype);
    if (!status)
        status = ra_storage_new(&dense, ra_min(batch_bytes, GENERATOR_STAGING), storage);
    if (status)
        return status;
    (*storage)->move = make_elements;
    (*storage)->describe = describe_made;
    (*storage)->made.distribution = distribution;
    (*storage)->made.seed = seed;
    return RA_OK;
}
