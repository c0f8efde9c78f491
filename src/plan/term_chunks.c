/* SPDX-License-Identifier: Apache-2.0 */
/* chunks:SIZE: a query sees the keys of its own chunk. Chunks are SIZE positions, counted from the problem's position
 * 0. */
#include "base/checked.h"
#include "plan/pattern.h"

static ra_status chunks_parse(ra_parser *p, ra_term *term)
{
    if (*p->at != ':')
        return ra_parse_expected(p, p->at, "\":SIZE\" after \"chunks\"");
    const char *start = ++p->at;
    ra_status status = ra_parse_number(p, "the size of a chunk, >= 1", &term->size);
    return !status && term->size < 1 ? ra_parse_expected(p, start, "the size of a chunk, >= 1") : status;
}

static ra_interval chunks_interval(const ra_term *term, int64_t position)
{
    int64_t inside = (position + term->origin) % term->size; /* its chunk */
    int64_t begin = ra_add_clamped(position, -(inside < 0 ? inside + term->size : inside));
    return (ra_interval){begin, ra_add_clamped(begin, term->size)};
}

static int64_t chunks_next_jump(const ra_term *term, int64_t position)
{
    return chunks_interval(term, position).hi;
}

static int64_t chunks_period(const ra_term *term)
{
    return term->size;
}

/* Keys are at positions >= 0: a query before that sees none. */
static int chunks_sees(const ra_term *term, int64_t head, int64_t position, int64_t key)
{
    (void)head;
    int64_t t = position + term->origin, j = key + term->origin;
    return t >= 0 && t / term->size == j / term->size;
}

const ra_term_kind ra_term_chunks = {"chunks",         "chunks:SIZE", chunks_parse, chunks_interval,
                                     chunks_next_jump, chunks_period, chunks_sees};
