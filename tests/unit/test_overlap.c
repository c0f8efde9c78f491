/* SPDX-License-Identifier: Apache-2.0 */
/* Views that share memory are found, views that only lie between each other are not: against marking every byte. */
#include "base/overlap.h"
#include "support/random.h"
#include "support/unit.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 14, MIDDLE = ROOM / 2 };

static uint8_t marks[ROOM];
static char memory[ROOM]; /* views point into it; nothing is read */

static int64_t size_of(const ra_tensor *t)
{
    return (int64_t)ra_dtype_size(t->dtype);
}

/* Where a view's element is, from the start of the memory on. */
static int64_t at(const ra_tensor *t, int64_t b, int64_t s, int64_t h, int64_t d)
{
    int64_t element = b * t->batch_stride + s * t->seq_stride + h * t->head_stride + d * t->dim_stride;
    return (char *)t->data - memory + element * size_of(t);
}

/* Mark every byte; false: one of them was marked before. */
static bool mark(const ra_tensor *t)
{
    bool fresh = true;
    for (int64_t b = 0; b < t->batch; b++)
        for (int64_t s = 0; s < t->seq; s++)
            for (int64_t h = 0; h < t->heads; h++)
                for (int64_t d = 0; d < t->dim; d++)
                    for (int64_t i = 0; i < size_of(t); i++) {
                        int64_t byte = at(t, b, s, h, d) + i;
                        REQUIRE(byte >= 0 && byte < ROOM, "the test's own views leave its memory");
                        fresh &= !marks[byte];
                        marks[byte] = 1;
                    }
    return fresh;
}

static bool touches(const ra_tensor *t)
{
    for (int64_t b = 0; b < t->batch; b++)
        for (int64_t s = 0; s < t->seq; s++)
            for (int64_t h = 0; h < t->heads; h++)
                for (int64_t d = 0; d < t->dim; d++)
                    for (int64_t i = 0; i < size_of(t); i++)
                        if (marks[at(t, b, s, h, d) + i])
                            return true;
    return false;
}

static ra_tensor any_view(choices *c)
{
    static const ra_dtype dtypes[] = {RA_F32, RA_F16, RA_BF16};
    ra_tensor t = {.dtype = dtypes[choose(c, 0, 2)]};
    int64_t *extents[] = {&t.batch, &t.seq, &t.heads, &t.dim};
    int64_t *strides[] = {&t.batch_stride, &t.seq_stride, &t.head_stride, &t.dim_stride};
    int64_t longest = chance(c, 2) ? 12 : 60;
    for (int i = 0; i < 4; i++) {
        *extents[i] = chance(c, 3) ? 1 : chance(c, 30) ? 0 : choose(c, 2, 5);
        *strides[i] = chance(c, 8) ? 0 : choose(c, -longest, longest);
        if (*extents[i] == 1 && chance(c, 2))
            *strides[i] = INT64_MIN; /* never used */
    }
    t.data = memory + MIDDLE + choose(c, -60, 60) * size_of(&t);
    return t;
}

/* One of several slices of one dense array: of the kind that callers have. */
static ra_tensor any_slice(choices *c)
{
    enum { SEQ = 6, HEADS = 8, DIM = 4 };
    ra_tensor t = {.dtype = RA_F32, .batch = 1, .batch_stride = INT64_MAX};
    int64_t step = choose(c, 1, 3), first = choose(c, 0, 2), part = choose(c, 1, DIM), from = choose(c, 0, DIM - part);
    t.seq = choose(c, 1, SEQ), t.seq_stride = (int64_t)HEADS * DIM;
    t.heads = choose(c, 1, (HEADS - first - 1) / step + 1), t.head_stride = step * DIM;
    t.dim = part, t.dim_stride = 1;
    int64_t start = choose(c, 0, SEQ - t.seq) * t.seq_stride + first * DIM + from;
    t.data = memory + MIDDLE + start * size_of(&t);
    return t;
}

static void check(uint64_t seed, const ra_tensor *a, const ra_tensor *b)
{
    memset(marks, 0, sizeof marks);
    ra_overlap itself = mark(a) ? RA_APART : RA_OVERLAPPING, both = touches(b) ? RA_OVERLAPPING : RA_APART;
    REQUIRE(ra_tensor_overlaps_itself(a) == itself, "seed %llu: with itself: not %d", (unsigned long long)seed, itself);
    REQUIRE(ra_tensors_overlap(a, b) == both, "seed %llu: not %d", (unsigned long long)seed, both);
    REQUIRE(ra_tensors_overlap(b, a) == both, "seed %llu: the other way round: not %d", (unsigned long long)seed, both);
}

static void random_views(void **state)
{
    (void)state;
    int overlapping = 0, count = 0;
    seed_range range = seeds(20000);
    for (uint64_t seed = range.first; seed < range.end; seed++, count++) {
        choices c = {seed};
        bool slices = chance(&c, 2);
        ra_tensor a = slices ? any_slice(&c) : any_view(&c), b = slices ? any_slice(&c) : any_view(&c);
        check(seed, &a, &b);
        overlapping += ra_tensors_overlap(&a, &b) == RA_OVERLAPPING;
    }
    /* The test looks at both kinds. */
    REQUIRE(overlapping > count / 5 && overlapping < count - count / 5, "%d of %d overlap", overlapping, count);
}

/* Views far too large to be marked. */
static void large_views(void **state)
{
    (void)state;
    const int64_t seq = INT64_C(1) << 40, heads = 64, dim = 128;
    ra_tensor even = {memory, RA_F32, 1, seq, heads / 2, dim, 0, heads * dim, 2 * dim, 1}, odd = even;
    odd.data = memory + dim * 4;
    assert_int_equal(ra_tensors_overlap(&even, &odd), RA_APART);
    assert_int_equal(ra_tensor_overlaps_itself(&even), RA_APART);
    odd.data = memory + dim * 4 - 2; /* half an element */
    assert_int_equal(ra_tensors_overlap(&even, &odd), RA_OVERLAPPING);
    odd.dtype = RA_F16;
    odd.data = memory + dim * 4;
    odd.seq_stride *= 2, odd.head_stride *= 2;
    assert_int_equal(ra_tensors_overlap(&even, &odd), RA_APART);
    odd.dim *= 2;
    assert_int_equal(ra_tensors_overlap(&even, &odd), RA_APART);
    odd.dim++;
    assert_int_equal(ra_tensors_overlap(&even, &odd), RA_OVERLAPPING);
    even.seq_stride = 0;
    assert_int_equal(ra_tensor_overlaps_itself(&even), RA_OVERLAPPING);
}

/* Strides that have nothing to do with each other end in an answer or in giving up, never in a hang. */
static void entangled_views(void **state)
{
    (void)state;
    ra_tensor a = {memory, RA_F32, 1000003, 1000033, 1000037, 999983, 3000000019, 2999999929, 3000000077, 2999999999};
    ra_tensor b = {memory + 1, RA_F32, 999979, 999961, 999959, 999953, 2999999957, 3000000013, 2999999993, 3000000001};
    ra_overlap found = ra_tensors_overlap(&a, &b);
    assert_true(found == RA_OVERLAPPING || found == RA_TANGLED || found == RA_APART);
    found = ra_tensor_overlaps_itself(&a);
    assert_true(found != RA_APART);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_views), cmocka_unit_test(large_views),
                                       cmocka_unit_test(entangled_views)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
