/* SPDX-License-Identifier: Apache-2.0 */
/* Made-up packed sequences, padded batches and masks. See ragged.h. */
#include "support/ragged.h"

#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Packed sequences -------------------------------------------------------------------------------------------- */

/* Some of what is left, or nothing; all of it for the last. */
static int64_t choose_length(choices *c, int64_t left, bool last)
{
    return last ? left : chance(c, 4) ? 0 : choose(c, 0, chance(c, 2) ? left : left < 5 ? left : 5);
}

void append_packed(choices *c, int64_t q_len, int64_t kv_len, char *text, size_t size)
{
    int64_t count = choose(c, 1, 9);
    for (int64_t i = 0; i < count; i++) {
        int64_t queries = choose_length(c, q_len, i + 1 == count), keys = choose_length(c, kv_len, i + 1 == count);
        size_t used = strlen(text);
        snprintf(text + used, size - used, "%s%lld/%lld", i ? "," : "documents:", (long long)queries, (long long)keys);
        q_len -= queries;
        kv_len -= keys;
    }
}

/* ---- Arrays ------------------------------------------------------------------------------------------------------ */

/* Arrays of the last problems that were made up; the next ones take their places. */
enum { PROBLEMS = 16 };

typedef struct arrays {
    ra_score_arrays views;
    ra_tensor lengths, mask;
    int64_t *numbers;
    uint8_t *booleans;
} arrays;

static arrays *next_arrays(void)
{
    static arrays all[PROBLEMS];
    static int next;
    arrays *a = &all[next++ % PROBLEMS];
    free(a->numbers);
    free(a->booleans);
    *a = (arrays){.views = RA_SCORE_ARRAYS_INIT};
    return a;
}

static void *take(int64_t bytes)
{
    void *memory = malloc((size_t)bytes + 1);
    assert_non_null(memory);
    return memory;
}

/* Padding on the left, on the right, on both sides or on none; some elements have no key. */
static void make_lengths(choices *c, const ra_problem *p, bool placed, arrays *a)
{
    int64_t columns = placed ? 3 : 2;
    a->numbers = take(p->batch * columns * (int64_t)sizeof *a->numbers);
    for (int64_t i = 0; i < p->batch; i++) {
        int64_t lo = chance(c, 2) ? 0 : choose(c, 0, p->kv_len);
        int64_t hi = chance(c, 3) ? p->kv_len : choose(c, lo, p->kv_len);
        a->numbers[i * columns] = lo;
        a->numbers[i * columns + 1] = hi;
        if (placed)
            a->numbers[i * columns + 2] = choose(c, 0, p->key_position + p->kv_len + 20);
        if (i > 0 && chance(c, 4)) /* as the one before */
            memcpy(a->numbers + i * columns, a->numbers + (i - 1) * columns, (size_t)columns * sizeof *a->numbers);
    }
    a->lengths = (ra_tensor){a->numbers, RA_I64, p->batch, 1, 1, columns, columns, 0, 0, 1};
    a->views.lengths = &a->lengths;
}

/* Some single pairs, nearly all or nearly none; whole squares of it empty. */
static void make_mask(choices *c, const ra_problem *p, arrays *a)
{
    int64_t batch = chance(c, 3) ? p->batch : 1, heads = chance(c, 3) ? p->heads : 1;
    int64_t square = choose(c, 20, 150), part = chance(c, 3) ? 20 : 2;
    int64_t row = p->kv_len + choose(c, 0, 3), slice = row * p->q_len;
    a->booleans = take(batch * heads * slice);
    memset(a->booleans, 0xff, (size_t)(batch * heads * slice));
    for (int64_t i = 0; i < batch * heads * p->q_len; i++) {
        uint64_t empty = choose_bits(&(choices){(uint64_t)(i / square)});
        for (int64_t key = 0; key < p->kv_len; key++)
            a->booleans[i * row + key] = !(empty >> (key / square % 64) & 1) && chance(c, part);
    }
    a->mask = (ra_tensor){a->booleans, RA_BOOL, batch, p->q_len, heads, p->kv_len, heads * slice, row, slice, 1};
    a->views.mask = &a->mask;
}

/* ---- Problems ---------------------------------------------------------------------------------------------------- */

static void append(char *text, size_t size, const char *term)
{
    strncat(text, "+", size - strlen(text) - 1);
    strncat(text, term, size - strlen(text) - 1);
}

void choose_ragged(choices *c, ra_problem *p, char *text, size_t size)
{
    bool by_position = strstr(text, "dilated:") || strstr(text, "blocks:"), packed = false;
    if (p->query_position == RA_SAME && !by_position && chance(c, 3)) {
        packed = true;
        append(text, size, "");
        append_packed(c, p->q_len, p->kv_len, text, size);
    }
    bool lengths = chance(c, 3), mask = chance(c, 4);
    if (!lengths && !mask)
        return;
    arrays *a = next_arrays();
    if (lengths) {
        append(text, size, "lengths");
        make_lengths(c, p, p->query_position == RA_SAME && !packed && chance(c, 2), a);
    }
    if (mask) {
        append(text, size, "mask");
        make_mask(c, p, a);
    }
    p->score_arrays = &a->views;
}
