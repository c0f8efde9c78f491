/* full: every key. causal: keys at positions up to the query's own. */
#include "plan/pattern.h"

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

static ra_interval causal_interval(const ra_term *term, int64_t position)
{
    (void)term;
    return (ra_interval){0, position + 1};
}

static int causal_sees(const ra_term *term, int64_t head, int64_t position, int64_t key)
{
    (void)head;
    (void)term;
    return key <= position;
}

const ra_term_kind ra_term_full = {"full", "full", NULL, full_interval, full_sees};
const ra_term_kind ra_term_causal = {"causal", "causal", NULL, causal_interval, causal_sees};
