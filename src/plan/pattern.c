#include "plan/pattern.h"

#include "base/checked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ra_term_kind *const kinds[] = {&ra_term_full, &ra_term_causal, &ra_term_window, &ra_term_documents};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

ra_interval ra_pattern_interval(const ra_pattern *pattern, int64_t position)
{
    ra_interval seen = {0, pattern->kv_len};
    for (int i = 0; i < pattern->count; i++) {
        ra_interval term = pattern->terms[i].kind->interval(&pattern->terms[i], position);
        seen.lo = ra_max(seen.lo, term.lo);
        seen.hi = ra_min(seen.hi, term.hi);
    }
    return seen;
}

ra_interval ra_pattern_reach(const ra_pattern *pattern, int64_t first, int64_t count)
{
    int64_t last = first + count - 1;
    ra_interval head = ra_pattern_interval(pattern, first), tail = ra_pattern_interval(pattern, last);
    while (head.lo >= head.hi && first < last)
        head = ra_pattern_interval(pattern, ++first);
    while (tail.lo >= tail.hi && last > first)
        tail = ra_pattern_interval(pattern, --last);
    return head.lo < head.hi ? (ra_interval){head.lo, tail.hi} : (ra_interval){0, 0};
}

int ra_pattern_sees(const ra_pattern *pattern, int64_t position, int64_t key)
{
    for (int i = 0; i < pattern->count; i++)
        if (!pattern->terms[i].kind->sees(&pattern->terms[i], position, key))
            return 0;
    return 1;
}

void ra_pattern_clear(ra_pattern *pattern)
{
    for (int i = 0; i < pattern->count; i++)
        free(pattern->terms[i].ends);
    pattern->count = 0;
}

/* ---- Text: every message names the character, from 1, at which something else was expected ---------------------- */

ra_status ra_parse_expected(const ra_parser *p, const char *at, const char *what)
{
    const char *quote = *at ? "\"" : "";
    return ra_fail(RA_ERROR_ARGUMENT, "pattern \"%.200s\", character %lld: expected %s, found %s%.40s%s", p->text,
                   (long long)(at - p->text) + 1, what, quote, *at ? at : "the end", quote);
}

ra_status ra_parse_number(ra_parser *p, const char *what, int64_t *number)
{
    const char *start = p->at;
    int64_t value = 0;
    if (*p->at < '0' || *p->at > '9')
        return ra_parse_expected(p, start, what);
    for (; *p->at >= '0' && *p->at <= '9'; p->at++)
        if (!ra_mul_ok(value, 10, &value) || !ra_add_ok(value, *p->at - '0', &value))
            return ra_parse_expected(p, start, "a number below 2^63");
    *number = value;
    return RA_OK;
}

static ra_status unknown_term(const ra_parser *p)
{
    char known[256] = "one of ";
    for (int i = 0; i < KINDS; i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", kinds[i]->usage);
    }
    return ra_parse_expected(p, p->at, known);
}

static ra_status parse_term(ra_parser *p, ra_term *term)
{
    size_t length = strcspn(p->at, ":+");
    for (int i = 0; i < KINDS; i++)
        if (strlen(kinds[i]->name) == length && memcmp(kinds[i]->name, p->at, length) == 0) {
            term->kind = kinds[i];
            p->at += length;
            return kinds[i]->parse ? kinds[i]->parse(p, term) : RA_OK;
        }
    return unknown_term(p);
}

ra_status ra_pattern_parse(const char *text, int64_t kv_len, ra_lengths_loader load, ra_pattern *pattern)
{
    ra_parser p = {text, text, kv_len, load};
    memset(pattern, 0, sizeof *pattern);
    pattern->kv_len = kv_len;
    for (;;) {
        if (pattern->count == RA_PATTERN_TERMS)
            return ra_parse_expected(&p, p.at, "no more than 16 terms");
        ra_status status = parse_term(&p, &pattern->terms[pattern->count++]);
        if (status)
            return status;
        if (!*p.at)
            return RA_OK;
        if (*p.at != '+')
            return ra_parse_expected(&p, p.at, "\"+\" or the end");
        p.at++;
    }
}
