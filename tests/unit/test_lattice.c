/* SPDX-License-Identifier: Apache-2.0 */
/* Lattices against one flag for each position, and permutations that are computed against a list. */
#include "plan/lattice.h"
#include "plan/shuffle.h"
#include "support/random.h"
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>

#define LATTICE_REQUIRE(l, condition, at)                                                                              \
    REQUIRE(condition, "segment %lld, rate %lld, offset %lld, at %lld: not %s", (long long)(l)->segment,               \
            (long long)(l)->rate, (long long)(l)->offset, (long long)(at), #condition)

/* Members are numbered as they come. */
static void check_lattice(const ra_lattice *l, int64_t length)
{
    int64_t members = 0, in_segment = 0;
    if (l->members < 1) {
        fail_msg("segment %lld, rate %lld: no members", (long long)l->segment, (long long)l->rate);
        return;
    }
    for (int64_t at = 0; at < length; at++) {
        bool member = (at % l->segment) % l->rate == l->offset;
        LATTICE_REQUIRE(l, ra_lattice_has(l, at) == member, at);
        LATTICE_REQUIRE(l, ra_lattice_below(l, at) == members, at);
        if (member)
            LATTICE_REQUIRE(l, ra_lattice_position(l, members) == at, at);
        members += member;
        in_segment += at < l->segment && member;
    }
    if (length >= l->segment)
        LATTICE_REQUIRE(l, l->members == in_segment, length);
    LATTICE_REQUIRE(l, ra_lattice_plain(l) == (l->rate == 1), length);
}

static void every_small_lattice(void **state)
{
    (void)state;
    for (int64_t segment = 1; segment <= 14; segment++)
        for (int64_t rate = 1; rate <= segment; rate++)
            for (int64_t offset = 0; offset < rate; offset++) {
                ra_lattice l = ra_lattice_make(segment, rate, offset);
                check_lattice(&l, 5 * segment + 3);
            }
}

static void random_lattices(void **state)
{
    (void)state;
    seed_range range = seeds(300);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        int64_t segment = choose(&c, 1, 3000), rate = choose(&c, 1, chance(&c, 2) ? segment : 1 + segment / 20);
        ra_lattice l = ra_lattice_make(segment, rate, choose(&c, 0, rate - 1));
        check_lattice(&l, choose(&c, 1, 9000));
    }
}

/* Where positions are near the largest there are. */
static void large_lattices(void **state)
{
    (void)state;
    const int64_t far = INT64_C(1) << 60;
    ra_lattice all = ra_lattice_all();
    assert_true(ra_lattice_plain(&all) && ra_lattice_position(&all, far) == far && ra_lattice_has(&all, far));
    assert_true(ra_lattice_position(&all, -5) == -5 && ra_lattice_below(&all, -5) == -5);
    ra_lattice wide = ra_lattice_make(INT64_MAX, 2, 1);
    assert_true(ra_lattice_position(&wide, far) == 2 * far + 1);
    assert_true(ra_lattice_below(&wide, 2 * far) == far && ra_lattice_has(&wide, 2 * far + 1));
    ra_lattice single = ra_lattice_make(INT64_MAX, INT64_MAX, 7);
    assert_true(single.members == 1 && ra_lattice_position(&single, 0) == 7);
    assert_true(ra_lattice_below(&single, 7) == 0 && ra_lattice_below(&single, 8) == 1);
    assert_true(ra_lattice_below(&single, INT64_MAX - 1) == 1);
}

/* ---- Shuffles ---------------------------------------------------------------------------------------------------- */

static void check_shuffle(int64_t count, uint64_t seed, uint64_t head, uint64_t row)
{
    ra_shuffle s = ra_shuffle_make(count, seed, head, row);
    uint8_t *met = calloc((size_t)count, 1);
    assert_non_null(met);
    for (int64_t i = 0; i < count; i++) {
        int64_t value = ra_shuffle_at(&s, i);
        REQUIRE(value >= 0 && value < count && !met[value], "%lld of seed %llu, head %llu, row %llu: %lld at %lld",
                (long long)count, (unsigned long long)seed, (unsigned long long)head, (unsigned long long)row,
                (long long)value, (long long)i);
        REQUIRE(ra_shuffle_place(&s, value) == i, "%lld: place %lld of %lld", (long long)count, (long long)i,
                (long long)value);
        met[value] = 1;
    }
    free(met);
}

static void shuffles_are_permutations(void **state)
{
    (void)state;
    for (int64_t count = 1; count <= 300; count++)
        check_shuffle(count, (uint64_t)count * 77, (uint64_t)count % 5, (uint64_t)count % 11);
    check_shuffle(4097, 1, 2, 3);
    check_shuffle(65536, UINT64_MAX, UINT64_MAX, UINT64_MAX);
    check_shuffle(100003, 0, 0, 0);
}

/* How many places hold the same in two orders: about one, however long they are. */
static int64_t places_alike(int64_t count, const uint64_t a[3], const uint64_t b[3])
{
    ra_shuffle x = ra_shuffle_make(count, a[0], a[1], a[2]), y = ra_shuffle_make(count, b[0], b[1], b[2]);
    int64_t alike = 0;
    for (int64_t i = 0; i < count; i++)
        alike += ra_shuffle_at(&x, i) == ra_shuffle_at(&y, i);
    return alike;
}

static void seeds_heads_and_rows_have_orders_of_their_own(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 50; i++) {
        const uint64_t here[3] = {i, i % 3, i % 7}, seed[3] = {i + 1, i % 3, i % 7}, head[3] = {i, i % 3 + 1, i % 7},
                       row[3] = {i, i % 3, i % 7 + 1}, swapped[3] = {i, i % 7 + 100, i % 3};
        assert_true(places_alike(1000, here, here) == 1000);
        assert_in_range(places_alike(1000, here, seed), 0, 30);
        assert_in_range(places_alike(1000, here, head), 0, 30);
        assert_in_range(places_alike(1000, here, row), 0, 30);
        assert_in_range(places_alike(1000, here, swapped), 0, 30);
    }
}

/* Over many rows every value comes at a place about as often as any other: within six deviations. */
static void no_value_is_preferred(void **state)
{
    (void)state;
    enum { MEAN = 400, DEVIATION = 20, MOST = 600 };
    static const int counts[] = {2, 16, 50, 64, MOST};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int place = 0; place < 2; place++) {
            int times[MOST] = {0};
            for (int row = 0; row < MEAN * counts[i]; row++) {
                ra_shuffle s = ra_shuffle_make(counts[i], 5, 1, (uint64_t)row);
                times[ra_shuffle_at(&s, place)]++;
            }
            for (int value = 0; value < counts[i]; value++)
                REQUIRE(abs(times[value] - MEAN) < 6 * DEVIATION, "%d of %d is at place %d in %d rows instead of %d",
                        value, counts[i], place, times[value], (int)MEAN);
        }
}

/* And any two come together. */
static void no_pair_is_left_out(void **state)
{
    (void)state;
    enum { COUNT = 40, MEAN = 50 };
    static int times[COUNT][COUNT];
    for (int row = 0; row < MEAN * COUNT * COUNT; row++) {
        ra_shuffle s = ra_shuffle_make(COUNT, 9, 2, (uint64_t)row);
        times[ra_shuffle_at(&s, 0)][ra_shuffle_at(&s, 1)]++;
    }
    for (int i = 0; i < COUNT * COUNT; i++)
        REQUIRE(i / COUNT == i % COUNT || times[i / COUNT][i % COUNT] > 0, "%d and %d never begin a row", i / COUNT,
                i % COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_small_lattice),
        cmocka_unit_test(random_lattices),
        cmocka_unit_test(large_lattices),
        cmocka_unit_test(shuffles_are_permutations),
        cmocka_unit_test(seeds_heads_and_rows_have_orders_of_their_own),
        cmocka_unit_test(no_value_is_preferred),
        cmocka_unit_test(no_pair_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
