/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blocks:SIZE[:local=N][:global=N][:stride=N][:random=N][:seed=S][:density=F][:mask=@FILE.npy]: of the pairs of blocks
 * of SIZE positions some are kept, and within these every query sees every key. Without a mask the diagonal is kept.
 */
#include "base/checked.h"
#include "plan/pattern.h"

#include <stdlib.h>
#include <string.h>

enum { LOCAL, GLOBAL, STRIDE, RANDOM, SEED, DENSITY, MASK, KEYS };
static const char *const NAMES[KEYS] = {"local=", "global=", "stride=", "random=", "seed=", "density=", "mask=@"};

static ra_status parse_fraction(ra_parser *p, double *fraction)
{
    const char *start = p->at, what[] = "a density in (0, 1], as a decimal fraction of up to 15 digits";
    ra_status status = ra_parse_decimal(p, what, fraction);
    return !status && !(*fraction > 0 && *fraction <= 1) ? ra_parse_expected(p, start, what) : status;
}

static ra_status parse_mask(ra_parser *p, ra_blocks *b)
{
    const ra_pattern_context *context = ra_pattern_context_of(p);
    char *path = NULL;
    const char *start = p->at;
    p->at--; /* back to the '@' */
    ra_status status = ra_parse_path(p, &path);
    if (status)
        return status;
    status = context->files->mask(path, b->count, context->shape.heads, &b->mask, &b->mask_by_head);
    free(path);
    return status ? ra_parse_failed(p, start, status) : RA_OK;
}

static ra_status parse_stride(ra_parser *p, ra_blocks *b)
{
    const char *start = p->at;
    ra_status status = ra_parse_number(p, "a stride in blocks, >= 1", &b->stride);
    return !status && b->stride < 1 ? ra_parse_expected(p, start, "a stride in blocks, >= 1") : status;
}

static ra_status parse_value(ra_parser *p, int key, ra_blocks *b)
{
    int64_t seed = 0;
    ra_status status;
    switch (key) {
    case LOCAL: return ra_parse_number(p, "blocks to each side, >= 0", &b->local);
    case GLOBAL:
        status = ra_parse_number(p, "global blocks, >= 0", &b->global);
        b->global = ra_min(b->global, b->count);
        return status;
    case STRIDE: return parse_stride(p, b);
    case RANDOM: return ra_parse_number(p, "random blocks, >= 0", &b->random);
    case SEED:
        status = ra_parse_number(p, "a seed, >= 0", &seed);
        b->seed = (uint64_t)seed;
        return status;
    case DENSITY: return parse_fraction(p, &b->wanted);
    default: return parse_mask(p, b);
    }
}

/* One ":key=value"; given[key] is where it was. */
static ra_status parse_setting(ra_parser *p, ra_blocks *b, const char *given[KEYS])
{
    const char *start = ++p->at;
    for (int key = 0; key < KEYS; key++) {
        size_t length = strlen(NAMES[key]);
        if (strncmp(start, NAMES[key], length) != 0)
            continue;
        if (given[key])
            return ra_parse_expected(p, start, "a setting that was not given before");
        given[key] = start;
        p->at += length;
        return parse_value(p, key, b);
    }
    return ra_parse_expected(p, start, "local=N, global=N, stride=N, random=N, seed=S, density=F or mask=@FILE.npy");
}

/* A density chooses its terms itself. */
static ra_status check_alone(const ra_parser *p, const char *const given[KEYS])
{
    for (int key = 0; given[DENSITY] && key < KEYS; key++)
        if (given[key] && key != DENSITY && key != SEED)
            return ra_parse_expected(p, given[key],
                                     "nothing but a seed beside density, which picks local, global and random blocks");
    return RA_OK;
}

static ra_status blocks_parse(ra_parser *p, ra_term *term)
{
    const char *given[KEYS] = {NULL};
    const ra_pattern_shape *shape = &ra_pattern_context_of(p)->shape;
    if (*p->at != ':')
        return ra_parse_expected(p, p->at, "\":SIZE\" after \"blocks\"");
    const char *start = ++p->at;
    ra_blocks *b = term->blocks = calloc(1, sizeof *b);
    if (!b)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: a block-sparse pattern");
    b->heads = shape->heads;
    ra_status status = ra_parse_number(p, "the size of a block, >= 1", &b->size);
    if (!status && b->size < 1)
        status = ra_parse_expected(p, start, "the size of a block, >= 1");
    if (!status)
        b->count = ra_ceil_div(shape->kv_len, b->size);
    while (!status && *p->at == ':')
        status = parse_setting(p, b, given);
    if (!status)
        status = check_alone(p, given);
    if (status)
        return status;
    if (given[MASK] && !given[LOCAL])
        b->local = -1; /* the mask says it */
    if (b->count == 0)
        return RA_OK;
    if (b->wanted > 0)
        ra_blocks_choose(b);
    ra_blocks_measure(b);
    return RA_OK;
}

static int blocks_sees(const ra_term *term, int64_t head, int64_t position, int64_t key)
{
    const ra_blocks *b = term->blocks;
    return position >= 0 && ra_blocks_keeps(b, head, position / b->size, key / b->size);
}

const ra_term_kind ra_term_blocks = {
    "blocks",     "blocks:SIZE[:local=N][:global=N][:stride=N][:random=N][:seed=S][:density=F][:mask=@FILE.npy]",
    blocks_parse, NULL,
    NULL,         NULL,
    blocks_sees};
