/* SPDX-License-Identifier: Apache-2.0 */
/*
 * full: every key. causal: keys at positions up to the query's own. causal:prefix=N: besides, the first N positions see
 * each other.
 */
#include "base/checked.h"
#include "plan/pattern.h"

#include <string.h>

static ra_interval full_interval(const ra_term *term, int64_t position)
{
    (void)term, (void)position;
    return (ra_interval){0, INT64_MAX};
}

static int full_sees(const ra_term *term, int64_t head, int64_t position, int64_t key)
{
    (void)head;
    (void)term, (void)position, (void)key;
    return true;
}

static ra_status causal_parse(ra_parser *p, ra_term *term)
{
    static const char prefix[] = ":prefix=";
    if (*p->at != ':')
        return RA_OK;
    if (strncmp(p->at, prefix, sizeof prefix - 1) != 0)
        return ra_parse_expected(p, p->at, "\":prefix=N\", \"+\" or the end after \"causal\"");
    p->at += sizeof prefix - 1;
    return ra_parse_number(p, "a number of positions, >= 0", &term->prefix);
}

static ra_interval causal_interval(const ra_term *term, int64_t position)
{
    return (ra_interval){0, ra_max(position + 1, term->prefix - term->origin)};
}

static int64_t causal_period(const ra_term *term)
{
    return term->prefix <= 1;
}

/* In positions of the problem. */
static int causal_sees(const ra_term *term, int64_t head, int64_t position, int64_t key)
{
    (void)head;
    int64_t j = key + term->origin, t = position + term->origin;
    return j <= t || j < term->prefix;
}

const ra_term_kind ra_term_full = {"full", "full", NULL, full_interval, NULL, ra_term_always_repeats, full_sees};
const ra_term_kind ra_term_causal = {"causal", "causal[:prefix=N]", causal_parse, causal_interval,
                                     NULL,     causal_period,       causal_sees};
