/* SPDX-License-Identifier: Apache-2.0 */
/* Accounted memory. */
#include "base/memory.h"
#include "support/resident.h"
#include "support/unit.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

static void blocks_are_aligned_and_counted(void **state)
{
    (void)state;
    static const int64_t SIZES[] = {1, 64, 65, MIB, 4 * MIB - 64, 4 * MIB - 63, 4 * MIB, 9 * MIB + 1};
    enum { COUNT = sizeof SIZES / sizeof *SIZES };
    ra_accountant accountant = {0, 0};
    void *blocks[COUNT];
    int64_t sum = 0;
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(ra_memory_take(&accountant, SIZES[i], "a block", &blocks[i]), RA_OK);
        assert_true((uintptr_t)blocks[i] % 64 == 0);
        memset(blocks[i], i, (size_t)SIZES[i]);
        sum += ra_memory_rounded(SIZES[i]);
        assert_true(accountant.bytes == sum);
    }
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(((unsigned char *)blocks[i])[SIZES[i] - 1], i);
        ra_memory_give(&accountant, blocks[i], SIZES[i]);
    }
    assert_true(accountant.bytes == 0 && accountant.peak == sum);
}

static void too_much_is_a_status(void **state)
{
    (void)state;
    ra_accountant accountant = {0, 0};
    void *block = &accountant;
    assert_int_equal(ra_memory_take(&accountant, INT64_C(1) << 60, "a block", &block), RA_ERROR_MEMORY);
    assert_true(!block && accountant.bytes == 0);
}

/* What a simulated ring does: the same large blocks again and again, and small ones that stay in between. */
static void large_blocks_go_back_to_the_system(void **state)
{
    (void)state;
    static const int64_t SIZES[] = {4 * MIB, 16 * MIB, 5 * MIB};
    enum { COUNT = sizeof SIZES / sizeof *SIZES, ROUNDS = 16 };
    ra_accountant accountant = {0, 0};
    void *blocks[COUNT], *small[ROUNDS];
    int64_t first = 0;
    for (int round = 0; round < ROUNDS; round++) {
        small[round] = malloc(100000);
        assert_non_null(small[round]);
        for (int i = 0; i < COUNT; i++) {
            assert_int_equal(ra_memory_take(&accountant, SIZES[i], "a block", &blocks[i]), RA_OK);
            memset(blocks[i], 1, (size_t)SIZES[i]);
        }
        for (int i = 0; i < COUNT; i++)
            ra_memory_give(&accountant, blocks[i], SIZES[i]);
        if (round == 0)
            first = ra_memory_resident_peak();
    }
    assert_true(ra_memory_resident_peak() <= first + 4 * MIB);
    for (int round = 0; round < ROUNDS; round++)
        free(small[round]);
}

/* Grown, shrunk, and from and to sizes that are not mapped: the beginning of large blocks stays what it was. */
static void a_block_becomes_one_of_another_size(void **state)
{
    (void)state;
    static const int64_t SIZES[] = {0, 100, 4 * MIB, 9 * MIB + 1, 9 * MIB + 1, 2 * MIB, 64, 3 * MIB};
    enum { COUNT = sizeof SIZES / sizeof *SIZES };
    void *block = NULL;
    for (int i = 1; i < COUNT; i++) {
        ra_accountant accountant = {0, 0};
        assert_int_equal(ra_memory_renew(&accountant, SIZES[i], "a block", &block, SIZES[i - 1]), RA_OK);
        assert_true(block && (uintptr_t)block % 64 == 0);
        assert_true(accountant.bytes == ra_memory_rounded(SIZES[i]) && accountant.peak == accountant.bytes);
        if (SIZES[i] >= MIB && SIZES[i - 1] >= MIB)
            assert_int_equal(((unsigned char *)block)[0], i - 1);
        memset(block, i, (size_t)SIZES[i]);
    }
    ra_accountant accountant = {0, 0};
    assert_int_equal(ra_memory_renew(&accountant, INT64_C(1) << 60, "a block", &block, SIZES[COUNT - 1]),
                     RA_ERROR_MEMORY);
    assert_true(!block && accountant.bytes == 0);
}

/* What a large block becomes less goes back to the system, though it stays a large one. */
static void a_block_that_shrinks_gives_back(void **state)
{
    (void)state;
    enum { LARGE = 64 * MIB, SMALL = 8 * MIB };
    ra_accountant accountant = {0, 0};
    void *block;
    assert_int_equal(ra_memory_take(&accountant, LARGE, "a block", &block), RA_OK);
    memset(block, 1, LARGE);
    int64_t before = resident();
    accountant.bytes = 0;
    assert_int_equal(ra_memory_renew(&accountant, SMALL, "a block", &block, LARGE), RA_OK);
    assert_true(before - resident() > (LARGE - SMALL) / 2);
    ra_memory_give(&accountant, block, SMALL);
}

/* A process that computes again and again holds the scratch of one run, whatever it allocates in between. */
static void small_blocks_are_taken_again(void **state)
{
    (void)state;
    enum { BYTES = 784000, TIMES = 20 };
    ra_accountant accountant = {0, 0};
    void *block, *others[TIMES];
    char *end = NULL;
    for (int i = 0; i < TIMES; i++) {
        assert_int_equal(ra_memory_take(&accountant, BYTES, "a block", &block), RA_OK);
        others[i] = malloc(40);
        ra_memory_give(&accountant, block, BYTES);
        if (i == 0) /* the first one may be mapped, and the next the first of the heap */
            end = sbrk(0);
    }
    assert_true((char *)sbrk(0) - end <= 2 * BYTES);
    for (int i = 0; i < TIMES; i++)
        free(others[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_aligned_and_counted),     cmocka_unit_test(too_much_is_a_status),
        cmocka_unit_test(large_blocks_go_back_to_the_system), cmocka_unit_test(a_block_becomes_one_of_another_size),
        cmocka_unit_test(small_blocks_are_taken_again),       cmocka_unit_test(a_block_that_shrinks_gives_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
