/* SPDX-License-Identifier: Apache-2.0 */
/* Made-up tensors: any range, through any strides, is what the stream has there. */
#include "io/storage.h"
#include "support/sample.h"
#include "support/unit.h"
#include "views.h"

#include <stdlib.h>
#include <string.h>

typedef struct made_up {
    ra_tensor whole; /* dense; what a file with all elements would hold */
    ra_storage *storage;
} made_up;

static made_up make(choices *c, bool large)
{
    made_up m;
    ra_dtype dtype = (ra_dtype)choose(c, RA_F32, RA_BF16);
    ra_distribution distribution = chance(c, 2) ? RA_UNIFORM : RA_NORMAL;
    ra_layout layout = chance(c, 2) ? RA_BSHD : RA_BHSD;
    uint64_t seed = choose_bits(c);
    int64_t batch = choose(c, 1, 3), seq = choose(c, 1, 60), heads = choose(c, 1, 5), dim = choose(c, 1, 70);
    if (large) /* several times the staging in a row */
        batch = 1, seq = choose(c, 2, 5), heads = choose(c, 1, 60), dim = choose(c, 1, 1024);
    int64_t count = batch * seq * heads * dim;
    m.whole = ra_tensor_dense(malloc((size_t)count * ra_dtype_size(dtype)), dtype, layout, batch, seq, heads, dim);
    assert_non_null(m.whole.data);
    assert_int_equal(ra_generate_as(distribution, seed, 0, count, dtype, m.whole.data), RA_OK);
    ra_tensor view = m.whole;
    view.data = NULL;
    assert_int_equal(ra_storage_generator(distribution, seed, &view, &m.storage), RA_OK);
    assert_null(ra_storage_view(m.storage)->data);
    /* What is planned for files must do here. */
    assert_in_range(ra_storage_bytes(m.storage), 1, ra_storage_array_bytes(&view));
    return m;
}

static void try_many(int quick, bool large)
{
    seed_range range = seeds(quick);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        made_up m = make(&c, large);
        for (int i = 0; i < 4; i++)
            read_any_range(&c, m.storage, &m.whole, seed);
        ra_storage_free(m.storage);
        free(m.whole.data);
    }
}

static void ranges_are_of_the_whole(void **state)
{
    (void)state;
    try_many(400, false);
}

static void long_rows_are_made_in_parts(void **state)
{
    (void)state;
    try_many(8, true);
}

/* A tensor that no machine holds: a row near its end is made as quickly as its first. */
static void size_does_not_matter(void **state)
{
    (void)state;
    enum { HEADS = 8, DIM = 64 };
    const int64_t seq = (int64_t)1 << 40;
    const ra_tensor view = ra_tensor_dense(NULL, RA_F32, RA_BSHD, 1, seq, HEADS, DIM);
    static float row[HEADS * DIM], expected[HEADS * DIM];
    const ra_tensor into = ra_tensor_dense(row, RA_F32, RA_BSHD, 1, 1, HEADS, DIM);
    ra_storage *storage;
    assert_int_equal(ra_storage_generator(RA_NORMAL, 7, &view, &storage), RA_OK);
    assert_int_equal(ra_storage_read(storage, 0, seq - 1, 1, 0, &into), RA_OK);
    ra_generate(RA_NORMAL, 7, (seq - 1) * HEADS * DIM, HEADS * DIM, expected);
    assert_true(same_bits(row, expected, HEADS * DIM));
    ra_storage_free(storage);
}

static void refused(ra_distribution distribution, const ra_tensor *view, const char *part)
{
    ra_storage *storage;
    assert_int_equal(ra_storage_generator(distribution, 1, view, &storage), RA_ERROR_ARGUMENT);
    assert_null(storage);
    if (!strstr(ra_last_message(), part))
        fail_msg("'%s' does not say '%s'", ra_last_message(), part);
}

static void refuses_what_cannot_be_made(void **state)
{
    (void)state;
    float values[2 * 3 * 4] = {0};
    const ra_tensor fits = ra_tensor_dense(NULL, RA_F32, RA_BSHD, 1, 2, 3, 4);
    ra_tensor view = fits;
    refused(RA_NORMAL, NULL, "NULL");
    refused((ra_distribution)2, &fits, "distribution 2");
    view.dtype = RA_I64;
    refused(RA_NORMAL, &view, "int64");
    view = fits, view.dim = 0;
    refused(RA_NORMAL, &view, "dim 0");
    view = fits, view.seq_stride = 13;
    refused(RA_NORMAL, &view, "strides [24, 13, 4, 1]");
    view = ra_tensor_dense(NULL, RA_F32, RA_BSHD, (int64_t)1 << 30, (int64_t)1 << 30, 2, 1);
    refused(RA_NORMAL, &view, "64 bits");

    ra_storage *storage;
    view = fits, view.data = values;
    assert_int_equal(ra_storage_generator(RA_NORMAL, 1, &fits, &storage), RA_OK);
    assert_int_equal(ra_storage_write(storage, 0, 0, 2, &view), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "storage: made-up data of seed 1 cannot be written");
    ra_storage_free(storage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_of_the_whole),
        cmocka_unit_test(long_rows_are_made_in_parts),
        cmocka_unit_test(size_does_not_matter),
        cmocka_unit_test(refuses_what_cannot_be_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
