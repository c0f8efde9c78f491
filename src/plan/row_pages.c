/* Sets of rows in the form of pages of bits. */
#include "plan/row_pages.h"

#include "base/bits.h"
#include "base/checked.h"

#include <stdlib.h>

bool ra_row_set_pages(ra_row_set *s, int64_t planes, int64_t length)
{
    *s = (ra_row_set){.planes = planes, .page_count = ra_max(1, ra_ceil_div(length, RA_PAGE_ROWS))};
    s->pages = calloc((size_t)(planes * s->page_count), sizeof *s->pages);
    return s->pages != NULL;
}

void ra_pages_free(ra_row_set *s)
{
    for (int64_t i = 0; s->pages && i < s->planes * s->page_count; i++)
        free(s->pages[i]);
    free(s->pages);
}

static uint64_t *page_at(ra_row_set *s, int64_t index)
{
    if (!s->pages[index])
        s->pages[index] = calloc(RA_PAGE_WORDS, sizeof **s->pages);
    return s->pages[index];
}

bool ra_row_set_mark(ra_row_set *s, int64_t plane, int64_t lo, int64_t hi, int64_t *fresh)
{
    for (int64_t at = lo / 64 * 64; at < hi; at += 64) {
        uint64_t *page = page_at(s, plane * s->page_count + at / RA_PAGE_ROWS);
        if (!page)
            return false;
        uint64_t *word = &page[at % RA_PAGE_ROWS / 64], bits = ra_bits(ra_max(0, lo - at), hi - at);
        *fresh += __builtin_popcountll(bits & ~*word);
        *word |= bits;
    }
    return true;
}

bool ra_pages_combine(const ra_row_set *a, const ra_row_set *b, ra_set_operation operation, ra_row_set *to)
{
    if (!ra_row_set_pages(to, a->planes, a->page_count * RA_PAGE_ROWS))
        return false;
    for (int64_t i = 0; i < a->planes * a->page_count; i++) {
        const uint64_t *x = a->pages[i], *y = b->pages[i];
        if (!x || (!y && operation == RA_SET_BOTH))
            continue;
        uint64_t *page = page_at(to, i);
        if (!page)
            return false;
        for (int word = 0; word < RA_PAGE_WORDS; word++) {
            uint64_t other = y ? y[word] : 0;
            page[word] = x[word] & (operation == RA_SET_BOTH ? other : ~other);
        }
    }
    return true;
}

static int64_t page_rows(const uint64_t *page, int64_t first, int64_t lo, int64_t hi)
{
    int64_t rows = 0;
    for (int64_t word = ra_max(0, lo - first) / 64; word < RA_PAGE_WORDS && first + 64 * word < hi; word++) {
        int64_t at = first + 64 * word;
        rows += __builtin_popcountll(page[word] & ra_bits(ra_max(0, lo - at), ra_min(64, hi - at)));
    }
    return rows;
}

int64_t ra_pages_rows(const ra_row_set *s, int64_t lo, int64_t hi)
{
    int64_t rows = 0, end = ra_min(s->page_count, (hi - 1) / RA_PAGE_ROWS + 1);
    for (int64_t plane = 0; plane < s->planes; plane++)
        for (int64_t i = lo / RA_PAGE_ROWS; i < end; i++)
            if (s->pages[plane * s->page_count + i])
                rows += page_rows(s->pages[plane * s->page_count + i], i * RA_PAGE_ROWS, lo, hi);
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

void ra_pages_owners(const ra_row_set *s, const ra_partition *p, ra_owner_visitor visit, void *user)
{
    ra_owned part = {0, 0, 0, 0};
    for (int64_t i = 0; i < s->planes * s->page_count; i++)
        for (int64_t word = 0; s->pages[i] && word < RA_PAGE_WORDS; word++)
            if (s->pages[i][word])
                visit_word(s->pages[i][word], i % s->page_count * RA_PAGE_ROWS + 64 * word, p, &part, visit, user);
}

int64_t ra_pages_bytes(const ra_row_set *s)
{
    int64_t bytes = s->planes * s->page_count * (int64_t)sizeof *s->pages;
    for (int64_t i = 0; i < s->planes * s->page_count; i++)
        bytes += s->pages[i] ? RA_PAGE_WORDS * (int64_t)sizeof **s->pages : 0;
    return bytes;
}
