/* SPDX-License-Identifier: Apache-2.0 */
/* mask:@FILE.npy, or mask with an array of the caller: any single pairs. */
#include "plan/pattern.h"

#include <stdlib.h>
#include <string.h>

static ra_status load(const ra_pattern_context *c, const char *path, ra_mask *m)
{
    const int64_t shape[] = {c->shape.batch, c->shape.heads, m->q_len, m->kv_len};
    return c->files->pairs(path, shape, &m->bits, &m->batch, &m->heads);
}

static ra_status take(const ra_tensor *t, const ra_pattern_shape *shape, ra_mask *m)
{
    bool fits = (t->batch == shape->batch || t->batch == 1) && (t->heads == shape->heads || t->heads == 1) &&
                t->seq == m->q_len && t->dim == m->kv_len && (t->data || m->q_len == 0 || m->kv_len == 0);
    if (t->dtype != RA_BOOL || !fits)
        return ra_fail(RA_ERROR_ARGUMENT,
                       "mask: %s [batch %lld, seq %lld, heads %lld, dim %lld]: must be bool [%lld or 1, %lld, %lld or "
                       "1, %lld]",
                       ra_dtype_name(t->dtype), (long long)t->batch, (long long)t->seq, (long long)t->heads,
                       (long long)t->dim, (long long)shape->batch, (long long)m->q_len, (long long)shape->heads,
                       (long long)m->kv_len);
    m->array = *t;
    m->batch = t->batch;
    m->heads = t->heads;
    return RA_OK;
}

static ra_status mask_parse(ra_parser *p, ra_term *term)
{
    const ra_pattern_shape *shape = &ra_pattern_context_of(p)->shape;
    const char *start = p->at - strlen(term->kind->name);
    term->from_memory = *p->at != ':';
    if (term->from_memory ? !shape->mask : p->at[1] != '@')
        return ra_parse_expected(p, p->at, "\":@FILE.npy\" after \"mask\", or a mask among the score_arrays");
    ra_mask *m = term->mask = calloc(1, sizeof *m);
    if (!m)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: a mask");
    m->q_len = shape->q_len;
    m->kv_len = shape->kv_len;
    m->words = ra_blocks_words(shape->kv_len);
    char *path = NULL;
    p->at += !term->from_memory;
    ra_status status = term->from_memory ? RA_OK : ra_parse_path(p, &path);
    if (status)
        return status;
    status = path ? load(ra_pattern_context_of(p), path, m) : take(shape->mask, shape, m);
    free(path);
    return status == RA_OK || status == RA_ERROR_MEMORY ? status : ra_parse_failed(p, start, status);
}

/* The pattern knows the batch element and the query's index. */
static int mask_sees(const ra_term *term, int64_t head, int64_t position, int64_t key)
{
    (void)term, (void)head, (void)position, (void)key;
    return true;
}

const ra_term_kind ra_term_mask = {"mask", "mask:@FILE.npy", mask_parse, NULL, NULL, NULL, mask_sees};
