/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dilated:W/R,W/R,...[:mode=M]: branch i cuts the sequence into segments of W positions and takes every R-th of them,
 * from an offset on that goes by query head. Selected queries see the selected keys of their segment.
 */
#include "plan/pattern.h"

#include <stdlib.h>
#include <string.h>

static const char *const MODES[] = {"paper", "union", "grouped", "torchscale"};
enum { MODE_COUNT = sizeof MODES / sizeof *MODES };

static ra_status parse_branch(ra_parser *p, ra_dilation *d)
{
    int64_t *segment = &d->segment[d->count], *rate = &d->rate[d->count];
    const char *start = p->at;
    ra_status status = ra_parse_number(p, "a segment length, >= 1", segment);
    if (status)
        return status;
    if (*segment < 1)
        return ra_parse_expected(p, start, "a segment length, >= 1");
    if (*p->at != '/')
        return ra_parse_expected(p, p->at, "\"/\" and a rate after the segment length");
    start = ++p->at;
    status = ra_parse_number(p, "a rate, >= 1", rate);
    if (status)
        return status;
    if (*rate < 1)
        return ra_parse_expected(p, start, "a rate, >= 1");
    if (*rate > *segment)
        return ra_parse_expected(p, start, "a rate that is no more than its segment length");
    d->count++;
    return RA_OK;
}

static ra_status parse_mode(ra_parser *p, ra_dilation *d)
{
    const char *start = p->at, prefix[] = ":mode=";
    if (strncmp(start, prefix, sizeof prefix - 1) != 0)
        return ra_parse_expected(p, start, "\":mode=\", \"+\" or the end");
    p->at += sizeof prefix - 1;
    size_t length = strcspn(p->at, ":+");
    for (int i = 0; i < MODE_COUNT; i++)
        if (strlen(MODES[i]) == length && memcmp(MODES[i], p->at, length) == 0) {
            d->mode = (ra_dilated_mode)i;
            p->at += length;
            return RA_OK;
        }
    return ra_parse_expected(p, p->at, "one of the modes paper, union, grouped, torchscale");
}

static ra_status dilated_parse(ra_parser *p, ra_term *term)
{
    if (*p->at != ':')
        return ra_parse_expected(p, p->at, "\":W/R,W/R,...\" after \"dilated\"");
    ra_dilation *d = term->dilation = calloc(1, sizeof *d);
    if (!d)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: a dilated pattern");
    d->heads = ra_pattern_context_of(p)->shape.heads;
    d->origin = ra_pattern_context_of(p)->shape.origin;
    ra_status status;
    do {
        p->at++;
        if (d->count == RA_BRANCHES)
            return ra_parse_expected(p, p->at, "no more than 16 branches");
        status = parse_branch(p, d);
    } while (!status && *p->at == ',');
    return !status && *p->at == ':' ? parse_mode(p, d) : status;
}

/* Whether branch i of the head has both, in one segment: written out from the definition. */
static bool together(const ra_dilation *d, int i, int64_t head, int64_t t, int64_t j)
{
    int64_t w = d->segment[i], r = d->rate[i], offset = head % r;
    if (d->mode == RA_DILATED_GROUPED)
        offset = i % r;
    if (d->mode == RA_DILATED_TORCHSCALE) {
        int64_t of_offset = d->heads / r + (d->heads % r != 0); /* heads to an offset, rounded up */
        offset = head / of_offset;
    }
    return (t % w) % r == offset && (j % w) % r == offset && t / w == j / w;
}

/* Grouped: whether a head is one of branch i's, dealing heads out group by group. */
static bool in_group(const ra_dilation *d, int i, int64_t head)
{
    int64_t first = 0;
    for (int g = 0; g < i; g++)
        first += d->heads / d->count + (g < d->heads % d->count);
    return head >= first && head < first + d->heads / d->count + (i < d->heads % d->count);
}

static int dilated_sees(const ra_term *term, int64_t head, int64_t position, int64_t key)
{
    const ra_dilation *d = term->dilation;
    int times = 0;
    int64_t t = position + d->origin, j = key + d->origin; /* as the problem counts them */
    for (int i = 0; t >= 0 && i < d->count; i++)
        if (d->mode != RA_DILATED_GROUPED || in_group(d, i, head))
            times += together(d, i, head, t, j);
    return d->mode == RA_DILATED_UNION ? times > 0 : times;
}

const ra_term_kind ra_term_dilated = {
    "dilated",   "dilated:W/R,W/R,...[:mode=paper|union|grouped|torchscale]", dilated_parse, NULL, NULL, NULL,
    dilated_sees};
