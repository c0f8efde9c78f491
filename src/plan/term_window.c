/* SPDX-License-Identifier: Apache-2.0 */
/* window:LEFT,RIGHT: keys from position - LEFT to position + RIGHT; one number means both sides. */
#include "base/checked.h"
#include "plan/pattern.h"

static ra_status window_parse(ra_parser *p, ra_term *term)
{
    if (*p->at != ':')
        return ra_parse_expected(p, p->at, "\":LEFT,RIGHT\" after \"window\"");
    p->at++;
    ra_status status = ra_parse_number(p, "the number of positions to the left, >= 0", &term->left);
    if (status)
        return status;
    term->right = term->left;
    if (*p->at != ',')
        return RA_OK;
    p->at++;
    return ra_parse_number(p, "the number of positions to the right, >= 0", &term->right);
}

static ra_interval window_interval(const ra_term *term, int64_t position)
{
    return (ra_interval){ra_add_clamped(position, -term->left),
                         ra_add_clamped(ra_add_clamped(position, term->right), 1)};
}

static int window_sees(const ra_term *term, int64_t head, int64_t position, int64_t key)
{
    (void)head;
    return key < position ? position - key <= term->left : key - position <= term->right;
}

const ra_term_kind ra_term_window = {"window", "window:LEFT,RIGHT",    window_parse, window_interval,
                                     NULL,     ra_term_always_repeats, window_sees};
