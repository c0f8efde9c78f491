/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of rows as bits: see row_pages.h. */
#include "plan/row_pages.h"

#include "base/bits.h"
#include "base/checked.h"

#include <stdlib.h>

enum { PAGE_WORDS = 512, PAGE_ROWS = 64 * PAGE_WORDS };

bool ra_pages_make(ra_row_pages *s, int64_t planes, int64_t length)
{
    *s = (ra_row_pages){.planes = planes, .count = ra_max(1, ra_ceil_div(length, PAGE_ROWS))};
    s->page = calloc((size_t)(planes * s->count), sizeof *s->page);
    return s->page != NULL;
}

void ra_pages_free(ra_row_pages *s)
{
    for (int64_t i = 0; s->page && i < s->planes * s->count; i++)
        free(s->page[i]);
    free(s->page);
    *s = (ra_row_pages){0};
}

static uint64_t *page_at(ra_row_pages *s, int64_t index)
{
    if (!s->page[index])
        s->page[index] = calloc(PAGE_WORDS, sizeof **s->page);
    return s->page[index];
}

bool ra_pages_mark(ra_row_pages *s, int64_t plane, int64_t lo, int64_t hi, int64_t *fresh)
{
    for (int64_t at = lo / 64 * 64; at < hi; at += 64) {
        uint64_t *page = page_at(s, plane * s->count + at / PAGE_ROWS);
        if (!page)
            return false;
        uint64_t *word = &page[at % PAGE_ROWS / 64], bits = ra_bits(ra_max(0, lo - at), hi - at);
        if ((*word & bits) == bits)
            continue;
        *fresh += __builtin_popcountll(bits & ~*word);
        *word |= bits;
    }
    return true;
}

bool ra_pages_combine(const ra_row_pages *a, const ra_row_pages *b, ra_set_operation operation, ra_row_pages *to)
{
    if (!ra_pages_make(to, a->planes, a->count * PAGE_ROWS))
        return false;
    for (int64_t i = 0; i < a->planes * a->count; i++) {
        const uint64_t *x = a->page[i], *y = b->page[i];
        if (!x || (!y && operation == RA_SET_BOTH))
            continue;
        uint64_t *page = page_at(to, i);
        if (!page)
            return false;
        for (int word = 0; word < PAGE_WORDS; word++) {
            uint64_t other = y ? y[word] : 0;
            page[word] = x[word] & (operation == RA_SET_BOTH ? other : ~other);
        }
    }
    return true;
}

static int64_t page_rows(const uint64_t *page, int64_t first, int64_t lo, int64_t hi)
{
    int64_t rows = 0;
    for (int64_t word = ra_max(0, lo - first) / 64; word < PAGE_WORDS && first + 64 * word < hi; word++) {
        int64_t at = first + 64 * word;
        rows += __builtin_popcountll(page[word] & ra_bits(ra_max(0, lo - at), ra_min(64, hi - at)));
    }
    return rows;
}

int64_t ra_pages_rows(const ra_row_pages *s, int64_t lo, int64_t hi)
{
    int64_t rows = 0, end = ra_min(s->count, (hi - 1) / PAGE_ROWS + 1);
    for (int64_t plane = 0; plane < s->planes; plane++)
        for (int64_t i = lo / PAGE_ROWS; i < end; i++)
            if (s->page[plane * s->count + i])
                rows += page_rows(s->page[plane * s->count + i], i * PAGE_ROWS, lo, hi);
    return rows;
}

/* The bits of one word, by the parts of the partition that it reaches into. */
static void visit_word(uint64_t word, int64_t first, const ra_partition *p, ra_owned *part, ra_owner_visitor visit,
                       void *user)
{
    for (int64_t at = first; at < first + 64 && word & ra_bits(at - first, 64); at = part->end) {
        if (at < part->first || at >= part->end)
            *part = ra_partition_owner(p, at);
        int64_t rows = __builtin_popcountll(word & ra_bits(at - first, ra_min(64, part->end - first)));
        if (rows)
            visit(user, part->rank, rows);
    }
}

void ra_pages_owners(const ra_row_pages *s, const ra_partition *p, ra_owner_visitor visit, void *user)
{
    ra_owned part = {0, 0, 0, 0};
    for (int64_t i = 0; i < s->planes * s->count; i++)
        for (int64_t word = 0; s->page[i] && word < PAGE_WORDS; word++)
            if (s->page[i][word])
                visit_word(s->page[i][word], i % s->count * PAGE_ROWS + 64 * word, p, &part, visit, user);
}
