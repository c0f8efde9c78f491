/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that are kept nowhere: the checksum knows every bit and its place, and nothing of how it was written. */
#include "io/storage.h"
#include "support/unit.h"
#include "views.h"

#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, SEQ = 30, HEADS = 3, DIM = 5, KEPT = 7 };

/* Rows first .. first + count - 1 of one batch, through a view of any strides. */
static void write_rows(choices *c, ra_storage *storage, const ra_tensor *whole, int64_t batch, int64_t first,
                       int64_t count)
{
    block part = any_view(c, whole->dtype, 1, count, whole->heads, whole->dim);
    block_fill(&part, choose_bits(c));
    copy_naively(&part.view, 0, 0, whole, batch, first, count);
    assert_int_equal(ra_storage_write(storage, batch, first, count, &part.view), RA_OK);
    free(part.memory);
}

/* All rows once, in pieces, in any order, to one of two storages each; returns the sum of their checksums. */
static uint64_t scattered(choices *c, const ra_tensor *whole, const ra_row *rows, char *kept)
{
    ra_storage *storages[2];
    uint64_t sums[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(ra_storage_null(whole, rows, KEPT, kept, &storages[i]), RA_OK);
    int64_t piece = choose(c, 1, SEQ), pieces = (SEQ + piece - 1) / piece * BATCH, start = choose(c, 0, pieces - 1);
    for (int64_t i = 0; i < pieces; i++) {
        int64_t at = (start + i) % pieces, first = at / BATCH * piece;
        write_rows(c, storages[choose(c, 0, 1)], whole, at % BATCH, first, piece < SEQ - first ? piece : SEQ - first);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ra_storage_checksum(storages[i], &sums[i]), RA_OK);
        assert_int_equal(ra_storage_bytes(storages[i]), 0);
        ra_storage_free(storages[i]);
    }
    return sums[0] + sums[1];
}

static uint64_t checksum_of(const ra_tensor *whole)
{
    choices c = {1};
    ra_storage *storage;
    uint64_t sum;
    assert_int_equal(ra_storage_null(whole, NULL, 0, NULL, &storage), RA_OK);
    for (int64_t batch = 0; batch < whole->batch; batch++)
        write_rows(&c, storage, whole, batch, 0, whole->seq);
    assert_int_equal(ra_storage_checksum(storage, &sum), RA_OK);
    ra_storage_free(storage);
    return sum;
}

/* Values that no other program's stream has; the layout is that of the view. */
static block any_tensor(choices *c, ra_dtype dtype)
{
    block b = any_view(c, dtype, BATCH, SEQ, HEADS, DIM);
    block_fill(&b, choose_bits(c));
    return b;
}

static void order_and_layout_do_not_show(void **state)
{
    (void)state;
    seed_range range = seeds(200);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        ra_dtype dtype = (ra_dtype)choose(&c, RA_F32, RA_BF16);
        size_t size = ra_dtype_size(dtype);
        block whole = any_tensor(&c, dtype);
        ra_row rows[KEPT];
        char kept[KEPT * DIM * 4] = {0};
        for (int i = 0; i < KEPT; i++)
            rows[i] = (ra_row){choose(&c, 0, BATCH - 1), choose(&c, 0, SEQ - 1), choose(&c, 0, HEADS - 1)};
        REQUIRE(scattered(&c, &whole.view, rows, kept) == checksum_of(&whole.view), "seed %llu",
                (unsigned long long)seed);
        for (int i = 0; i < KEPT; i++)
            for (int64_t d = 0; d < DIM; d++)
                assert_memory_equal(kept + (i * DIM + d) * (int64_t)size,
                                    element(&whole.view, rows[i].batch, rows[i].seq, rows[i].head, d), size);
        free(whole.memory);
    }
}

/* Any single bit, and any two rows, positions, heads or elements that have changed places. */
static void every_bit_and_place_counts(void **state)
{
    (void)state;
    choices c = {1};
    block whole = any_tensor(&c, RA_F32);
    const ra_tensor *t = &whole.view;
    uint64_t sum = checksum_of(t);
    for (int i = 0; i < 2000; i++) {
        char *at = element(t, choose(&c, 0, BATCH - 1), choose(&c, 0, SEQ - 1), choose(&c, 0, HEADS - 1),
                           choose(&c, 0, DIM - 1));
        uint32_t bits, changed;
        memcpy(&bits, at, sizeof bits);
        changed = bits ^ (uint32_t)1 << choose(&c, 0, 31);
        memcpy(at, &changed, sizeof changed);
        assert_true(checksum_of(t) != sum);
        memcpy(at, &bits, sizeof bits);
    }
    assert_true(checksum_of(t) == sum);
    ra_tensor swapped = *t; /* backwards along one axis */
    swapped.data = element(t, 0, 0, HEADS - 1, 0), swapped.head_stride = -t->head_stride;
    assert_true(checksum_of(&swapped) != sum);
    swapped = *t, swapped.data = element(t, 0, SEQ - 1, 0, 0), swapped.seq_stride = -t->seq_stride;
    assert_true(checksum_of(&swapped) != sum);
    swapped = *t, swapped.data = element(t, BATCH - 1, 0, 0, 0), swapped.batch_stride = -t->batch_stride;
    assert_true(checksum_of(&swapped) != sum);
    swapped = *t, swapped.data = element(t, 0, 0, 0, DIM - 1), swapped.dim_stride = -t->dim_stride;
    assert_true(checksum_of(&swapped) != sum);
    free(whole.memory);
}

/* Another machine, compiler or version must find the same outputs the same. */
static void checksums_never_change(void **state)
{
    (void)state;
    static const uint64_t EXPECTED[] = {
        [RA_F32] = 0x1d2304a082724322U, [RA_F16] = 0xafc22d58d3ba7d10U, [RA_BF16] = 0xe031cc1994153a55U};
    for (int dtype = RA_F32; dtype <= RA_BF16; dtype++) {
        char elements[BATCH * SEQ * HEADS * DIM * 4];
        const ra_tensor t = ra_tensor_dense(elements, (ra_dtype)dtype, RA_BSHD, BATCH, SEQ, HEADS, DIM);
        assert_int_equal(ra_generate_as(RA_UNIFORM, 1, 0, BATCH * SEQ * HEADS * DIM, (ra_dtype)dtype, elements), RA_OK);
        uint64_t sum = checksum_of(&t);
        REQUIRE(sum == EXPECTED[dtype], "%s: %016llx", ra_dtype_name((ra_dtype)dtype), (unsigned long long)sum);
    }
}

static void refused(const ra_tensor *view, const ra_row *rows, int64_t count, void *kept, const char *part)
{
    ra_storage *storage;
    assert_int_equal(ra_storage_null(view, rows, count, kept, &storage), RA_ERROR_ARGUMENT);
    assert_null(storage);
    if (!strstr(ra_last_message(), part))
        fail_msg("'%s' does not say '%s'", ra_last_message(), part);
}

static void refuses_what_cannot_be_kept(void **state)
{
    (void)state;
    float values[2 * 3 * 4] = {0};
    ra_tensor view = ra_tensor_dense(values, RA_F32, RA_BSHD, 1, 2, 3, 4);
    ra_row row = {0, 2, 0};
    ra_storage *storage;
    refused(NULL, NULL, 0, NULL, "NULL");
    refused(&view, NULL, -1, NULL, "-1 rows");
    refused(&view, NULL, 1, values, "the list of 1 rows is NULL");
    refused(&view, &row, 1, NULL, "room for 1 rows is NULL");
    refused(&view, &row, 1, values, "row 0 is batch 0, seq 2, head 0: must be below 1, 2 and 3");
    row = (ra_row){1, 0, 0};
    refused(&view, &row, 1, values, "batch 1");
    row = (ra_row){0, 0, -1};
    refused(&view, &row, 1, values, "head -1");
    ra_tensor other = view;
    other.dtype = RA_I64;
    refused(&other, NULL, 0, NULL, "int64");
    other = view, other.heads = 0;
    refused(&other, NULL, 0, NULL, "heads 0");
    other = view, other.seq = INT64_MAX / 2;
    refused(&other, NULL, 0, NULL, "64 bits");

    assert_int_equal(ra_storage_null(&view, NULL, 0, NULL, &storage), RA_OK);
    assert_int_equal(ra_storage_read(storage, 0, 0, 2, 0, &view), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "storage: keeps nothing that could be read");
    assert_int_equal(ra_storage_checksum(storage, NULL), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_storage_checksum(NULL, NULL), RA_ERROR_ARGUMENT);
    ra_storage_free(storage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_and_layout_do_not_show),
        cmocka_unit_test(every_bit_and_place_counts),
        cmocka_unit_test(checksums_never_change),
        cmocka_unit_test(refuses_what_cannot_be_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
