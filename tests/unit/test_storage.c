/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of rows out of and into storages, of any layout and strides, against a loop over single elements. */
#include "base/checked.h"
#include "io/storage.h"
#include "support/folder.h"
#include "support/sample.h"
#include "support/unit.h"
#include "views.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- Storages ---------------------------------------------------------------------------------------------------- */

typedef struct stored {
    block tensor; /* what the storage should hold */
    ra_array *array;
    ra_storage *storage;
} stored;

/* A file of the tensor's elements as they lie, which must be dense: 3-D without the batch if `flat`. */
static void make_file(stored *s, ra_layout layout, bool flat)
{
    const ra_tensor *t = &s->tensor.view;
    const bool bshd = layout == RA_BSHD;
    const int64_t shape[] = {t->batch, bshd ? t->seq : t->heads, bshd ? t->heads : t->seq, t->dim};
    const bool no_batch = flat && t->batch == 1 && t->dim > 1, no_dim = flat && t->dim == 1 && !bshd;
    const char *path = t->dtype == RA_BF16 ? "a.safetensors" : "a.npy"; /* which has no bfloat16 */
    assert_int_equal(ra_array_create(path, t->dtype, no_batch || no_dim ? 3 : 4, shape + (no_batch ? 1 : 0), &s->array),
                     RA_OK);
    assert_int_equal(ra_array_write(s->array, 0, t->batch * t->seq * t->heads * t->dim, s->tensor.memory), RA_OK);
    assert_int_equal(ra_storage_array(s->array, t, &s->storage), RA_OK);
    assert_null(ra_storage_view(s->storage)->data);
    assert_int_equal(ra_storage_bytes(s->storage), ra_storage_array_bytes(t));
    assert_in_range(ra_storage_bytes(s->storage), 1, 1 << 20);
}

static void make_memory(stored *s)
{
    assert_int_equal(ra_storage_memory(&s->tensor.view, &s->storage), RA_OK);
    assert_ptr_equal(ra_storage_view(s->storage)->data, s->tensor.view.data);
    assert_int_equal(ra_storage_bytes(s->storage), 0);
}

static stored any_stored(choices *c, bool in_file, bool large)
{
    static const ra_dtype DTYPES[] = {RA_F32, RA_F16, RA_BF16};
    stored s = {0};
    ra_dtype dtype = DTYPES[choose(c, 0, 2)];
    int64_t batch = choose(c, 1, 3), seq = choose(c, 1, 40), heads = choose(c, 1, 5), dim = choose(c, 1, 20);
    if (chance(c, 4))
        dim = 1;
    if (large) /* several times the staging, with rows up to more than it */
        batch = 1, seq = choose(c, 2, 5), heads = choose(c, 1, 600), dim = choose(c, 1, 1024);
    if (!in_file) {
        s.tensor = any_view(c, dtype, batch, seq, heads, dim);
        block_fill(&s.tensor, choose_bits(c));
        make_memory(&s);
        return s;
    }
    ra_layout layout = chance(c, 2) ? RA_BSHD : RA_BHSD;
    s.tensor.bytes = batch * seq * heads * dim * (int64_t)ra_dtype_size(dtype);
    s.tensor.memory = malloc((size_t)s.tensor.bytes);
    assert_non_null(s.tensor.memory);
    s.tensor.view = ra_tensor_dense(s.tensor.memory, dtype, layout, batch, seq, heads, dim);
    block_fill(&s.tensor, choose_bits(c));
    make_file(&s, layout, chance(c, 2));
    return s;
}

static void stored_free(stored *s)
{
    ra_storage_free(s->storage);
    ra_array_close(s->array);
    free(s->tensor.memory);
}

/* The whole of what the storage holds, elements between those of a view in memory included. */
static void check_contents(const stored *s, const block *expected, uint64_t seed)
{
    char *got = s->tensor.memory;
    if (s->array) {
        got = malloc((size_t)expected->bytes);
        assert_non_null(got);
        int64_t count = expected->bytes / (int64_t)ra_dtype_size(expected->view.dtype);
        assert_int_equal(ra_array_read(s->array, 0, count, got), RA_OK);
    }
    REQUIRE(memcmp(got, expected->memory, (size_t)expected->bytes) == 0, "seed %llu: write", (unsigned long long)seed);
    if (s->array)
        free(got);
}

static void write_any_range(stored *s, choices *c, uint64_t seed)
{
    const ra_tensor *t = &s->tensor.view;
    int64_t batch = choose(c, 0, t->batch - 1), first = choose(c, 0, t->seq - 1);
    int64_t count = chance(c, 3) ? t->seq - first : choose(c, 1, t->seq - first);
    if (chance(c, 4))
        first = 0, count = t->seq;
    block view = any_view(c, t->dtype, 1, count, t->heads, t->dim), expected = twin(&s->tensor);
    block_fill(&view, choose_bits(c));
    copy_naively(&expected.view, batch, first, &view.view, 0, 0, count);
    assert_int_equal(ra_storage_write(s->storage, batch, first, count, &view.view), RA_OK);
    check_contents(s, &expected, seed);
    memcpy(s->tensor.memory, expected.memory, (size_t)expected.bytes); /* for the next range */
    free(expected.memory);
    free(view.memory);
}

static void try_stored(int quick, bool in_file, bool large)
{
    seed_range range = seeds(quick);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        stored s = any_stored(&c, in_file, large);
        for (int i = 0; i < 4; i++) {
            read_any_range(&c, s.storage, &s.tensor.view, seed);
            write_any_range(&s, &c, seed);
        }
        stored_free(&s);
    }
}

static void memory_moves_as_defined(void **state)
{
    (void)state;
    try_stored(400, false, false);
}

static void files_move_as_defined(void **state)
{
    (void)state;
    try_stored(400, true, false);
}

static void large_rows_move_in_parts(void **state)
{
    (void)state;
    try_stored(4, true, true);
}

/* ---- Single cases ------------------------------------------------------------------------------------------------ */

/* A line alone is longer than the staging, and the destination has a gap after each element: nothing moves directly. */
static void lines_longer_than_the_staging(void **state)
{
    (void)state;
    enum { DIM = 700001 };
    stored s = {.tensor.bytes = 2 * DIM * 4};
    s.tensor.memory = malloc((size_t)s.tensor.bytes);
    float *spread = malloc(2 * sizeof(float[2 * DIM]));
    assert_true(s.tensor.memory && spread);
    s.tensor.view = ra_tensor_dense(s.tensor.memory, RA_F32, RA_BSHD, 1, 2, 1, DIM);
    block_fill(&s.tensor, 1);
    make_file(&s, RA_BSHD, false);
    const ra_tensor into = {spread, RA_F32, 1, 2, 1, DIM, 0, 2 * DIM, 0, 2};
    assert_int_equal(ra_storage_read(s.storage, 0, 0, 2, 0, &into), RA_OK);
    for (int64_t i = 0; i < 2 * DIM; i++)
        assert_memory_equal(spread + 2 * i, s.tensor.memory + 4 * i, 4);
    free(spread);
    stored_free(&s);
}

static void no_rows_are_no_work(void **state)
{
    (void)state;
    float values[2 * 3 * 4] = {0};
    stored s = {.tensor.bytes = sizeof values};
    s.tensor.memory = malloc((size_t)s.tensor.bytes);
    assert_non_null(s.tensor.memory);
    s.tensor.view = ra_tensor_dense(s.tensor.memory, RA_F32, RA_BHSD, 1, 2, 3, 4);
    block_fill(&s.tensor, 1);
    make_file(&s, RA_BHSD, true);
    const ra_tensor none = ra_tensor_dense(values, RA_F32, RA_BSHD, 1, 0, 3, 4);
    assert_int_equal(ra_storage_read(s.storage, 0, 2, 0, 0, &none), RA_OK);
    assert_int_equal(ra_storage_write(s.storage, 0, 0, 0, &none), RA_OK);
    stored_free(&s);
}

/* Something that there is one of has no next: its stride means nothing. */
static void strides_of_ones_do_not_matter(void **state)
{
    (void)state;
    float from[3] = {1, 2, 3}, to[3] = {0};
    const ra_tensor kept = {from, RA_F32, 1, 1, 3, 1, INT64_MIN, INT64_MIN, 1, INT64_MAX};
    const ra_tensor into = {to, RA_F32, 1, 1, 3, 1, INT64_MAX, INT64_MAX, 1, INT64_MIN};
    ra_storage *storage;
    assert_int_equal(ra_storage_memory(&kept, &storage), RA_OK);
    assert_int_equal(ra_storage_read(storage, 0, 0, 1, 0, &into), RA_OK);
    assert_memory_equal(from, to, sizeof to);
    ra_storage_free(storage);
}

static void refused(ra_status status, ra_storage *const *storage, const char *part)
{
    assert_int_equal(status, RA_ERROR_ARGUMENT);
    assert_null(*storage);
    if (!strstr(ra_last_message(), part))
        fail_msg("'%s' does not say '%s'", ra_last_message(), part);
}

static void refuses_what_does_not_fit(void **state)
{
    (void)state;
    const int64_t shape[] = {2, 3, 4, 5};
    float values[120] = {0};
    ra_array *array;
    ra_storage *storage;
    ra_tensor fits = ra_tensor_dense(NULL, RA_F32, RA_BSHD, 2, 3, 4, 5), view = fits;
    assert_int_equal(ra_array_create("a.npy", RA_F32, 4, shape, &array), RA_OK);
    refused(ra_storage_array(NULL, &fits, &storage), &storage, "NULL");
    refused(ra_storage_array(array, NULL, &storage), &storage, "NULL");
    view.dtype = RA_F16;
    refused(ra_storage_array(array, &view, &storage), &storage, "a.npy: dtype float32 as a tensor of float16");
    view = fits, view.seq = 4;
    refused(ra_storage_array(array, &view, &storage), &storage, "has 120 elements, which is not [batch 2, seq 4, ");
    view = fits, view.seq = INT64_MAX;
    refused(ra_storage_array(array, &view, &storage), &storage, "has 120 elements");
    view = fits, view.heads = 0;
    refused(ra_storage_array(array, &view, &storage), &storage, "heads 0");
    view = fits, view.seq_stride = 21;
    refused(ra_storage_array(array, &view, &storage), &storage, "strides [60, 21, 5, 1]");
    view = fits, view.dim_stride = 2;
    refused(ra_storage_array(array, &view, &storage), &storage, "strides [60, 20, 5, 2]");
    ra_array_close(array);

    refused(ra_storage_memory(NULL, &storage), &storage, "NULL");
    refused(ra_storage_memory(&fits, &storage), &storage, "data is NULL");
    view = fits, view.data = values, view.dim = -1;
    refused(ra_storage_memory(&view, &storage), &storage, "dim -1");
    view = fits, view.data = values, view.dtype = RA_I64;
    refused(ra_storage_memory(&view, &storage), &storage, "int64");
    view = fits, view.data = values, view.seq_stride = INT64_MAX / 4;
    refused(ra_storage_memory(&view, &storage), &storage, "address space");
    ra_storage_free(NULL);
}

static void a_file_for_reading_is_not_written(void **state)
{
    (void)state;
    const int64_t shape[] = {1, 2, 3};
    float values[6] = {0};
    ra_array *array;
    ra_storage *storage;
    assert_int_equal(ra_array_create("a.npy", RA_F32, 3, shape, &array), RA_OK);
    assert_int_equal(ra_array_commit(array), RA_OK);
    ra_array_close(array);
    assert_int_equal(ra_array_open("a.npy", &array), RA_OK);
    const ra_tensor view = ra_tensor_dense(NULL, RA_F32, RA_BHSD, 1, 3, 2, 1);
    ra_tensor rows = ra_tensor_dense(values, RA_F32, RA_BSHD, 1, 3, 2, 1);
    assert_int_equal(ra_storage_array(array, &view, &storage), RA_OK);
    assert_int_equal(ra_storage_write(storage, 0, 0, 3, &rows), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_storage_read(storage, 0, 0, 3, 0, &rows), RA_OK);
    ra_storage_free(storage);
    ra_array_close(array);
}

static void refuses_ranges_that_are_not_there(void **state)
{
    (void)state;
    float values[2 * 3 * 4] = {0}, rows[3 * 4] = {0};
    const ra_tensor tensor = ra_tensor_dense(values, RA_F32, RA_BSHD, 1, 2, 3, 4);
    const ra_tensor one = ra_tensor_dense(rows, RA_F32, RA_BSHD, 1, 1, 3, 4);
    ra_storage *storage;
    uint64_t checksum;
    assert_int_equal(ra_storage_memory(&tensor, &storage), RA_OK);
    static const int64_t WRONG[][3] = {{-1, 0, 1}, {1, 0, 1}, {0, -1, 1}, {0, 2, 1}, {0, INT64_MAX, 1}, {0, 0, -1}};
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        const int64_t *w = WRONG[i];
        assert_int_equal(ra_storage_read(storage, w[0], w[1], w[2], 0, &one), RA_ERROR_ARGUMENT);
        assert_int_equal(ra_storage_write(storage, w[0], w[1], w[2], &one), RA_ERROR_ARGUMENT);
    }
    assert_int_equal(ra_storage_read(storage, 0, 0, 2, 0, &one), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "storage: a view of float32 [1, 1, 3, 4]: must be float32 [1, 2, 3, 4]");
    assert_int_equal(ra_storage_read(storage, 0, 0, 1, 0, NULL), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_storage_read(NULL, 0, 0, 1, 0, &one), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_storage_checksum(storage, &checksum), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_storage_read(storage, 0, 1, 1, 0, &one), RA_OK);
    ra_storage_free(storage);
}

static void refuses_heads_that_are_not_there(void **state)
{
    (void)state;
    float values[2 * 3 * 4] = {0}, rows[3 * 4] = {0};
    const ra_tensor tensor = ra_tensor_dense(values, RA_F32, RA_BSHD, 1, 2, 3, 4);
    const ra_tensor two = ra_tensor_dense(rows, RA_F32, RA_BSHD, 1, 1, 2, 4);
    ra_tensor none = two;
    ra_storage *storage;
    none.heads = 0;
    assert_int_equal(ra_storage_memory(&tensor, &storage), RA_OK);
    static const int64_t WRONG[] = {-1, 2, 3, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++)
        assert_int_equal(ra_storage_read(storage, 0, 0, 1, WRONG[i], &two), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_storage_read(storage, 0, 0, 1, 0, &none), RA_ERROR_ARGUMENT);
    assert_int_equal(ra_storage_read(storage, 0, 0, 1, 2, &two), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "storage: heads 2 to 2 + 2: must be within 3 heads");
    assert_int_equal(ra_storage_write(storage, 0, 0, 1, &two), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "storage: rows of 2 heads: all 3 are written");
    assert_int_equal(ra_storage_read(storage, 0, 0, 1, 1, &two), RA_OK);
    ra_storage_free(storage);
}

/* The same tensor in memory, in a file and made up: each head on its own is what it is among all. */
static void single_heads_are_those_of_the_whole(void **state)
{
    (void)state;
    enum {
        BATCH = 2,
        SEQ = 40,
        HEADS = 3,
        DIM = 50,
        FIRST = 7,
        ROWS = 30,
        COUNT = BATCH * SEQ * HEADS * DIM,
        KINDS = 3
    };
    static float values[COUNT], rows[ROWS * DIM];
    const ra_tensor into = ra_tensor_dense(rows, RA_F32, RA_BSHD, 1, ROWS, 1, DIM);
    ra_generate(RA_NORMAL, 5, 0, COUNT, values);
    for (int layout = RA_BSHD; layout <= RA_BHSD; layout++) {
        stored s = {.tensor = {.view = ra_tensor_dense(values, RA_F32, (ra_layout)layout, BATCH, SEQ, HEADS, DIM),
                               .memory = (char *)values}};
        const ra_tensor *whole = &s.tensor.view;
        ra_storage *storages[KINDS];
        make_file(&s, (ra_layout)layout, false);
        storages[0] = s.storage;
        assert_int_equal(ra_storage_memory(whole, &storages[1]), RA_OK);
        assert_int_equal(ra_storage_generator(RA_NORMAL, 5, whole, &storages[2]), RA_OK);
        for (int64_t at = 0; at < (int64_t)KINDS * BATCH * HEADS; at++) {
            int64_t batch = at / KINDS % BATCH, head = at / KINDS / BATCH;
            memset(rows, 0, sizeof rows);
            assert_int_equal(ra_storage_read(storages[at % KINDS], batch, FIRST, ROWS, head, &into), RA_OK);
            for (int64_t row = 0; row < ROWS; row++)
                assert_memory_equal(rows + row * DIM, element(whole, batch, FIRST + row, head, 0), DIM * sizeof *rows);
        }
        for (int i = 0; i < KINDS; i++)
            ra_storage_free(storages[i]);
        ra_array_close(s.array);
    }
}

/* ---- Threads that share an array --------------------------------------------------------------------------------- */

enum { WORKERS = 4, WORKER_ROWS = 50, SHARED_HEADS = 3, SHARED_DIM = 5, ROUNDS = 20 };

typedef struct worker {
    pthread_t thread;
    ra_array *array;
    int index;
    int wrong;
} worker;

/* Writes rows of its own to the shared array and reads them again, through a storage of its own. */
static void *work(void *argument)
{
    worker *w = argument;
    float rows[WORKER_ROWS * SHARED_HEADS * SHARED_DIM], back[WORKER_ROWS * SHARED_HEADS * SHARED_DIM];
    const ra_tensor view = ra_tensor_dense(NULL, RA_F32, RA_BHSD, 1, WORKERS * WORKER_ROWS, SHARED_HEADS, SHARED_DIM);
    ra_tensor from = ra_tensor_dense(rows, RA_F32, RA_BSHD, 1, WORKER_ROWS, SHARED_HEADS, SHARED_DIM), into = from;
    into.data = back;
    ra_storage *storage;
    if (ra_storage_array(w->array, &view, &storage)) {
        w->wrong = 1;
        return NULL;
    }
    for (int round = 0; round < ROUNDS; round++) {
        ra_generate(RA_NORMAL, (uint64_t)(round * WORKERS + w->index), 0, sizeof rows / sizeof *rows, rows);
        w->wrong |= ra_storage_write(storage, 0, w->index * WORKER_ROWS, WORKER_ROWS, &from) != RA_OK ||
                    ra_storage_read(storage, 0, w->index * WORKER_ROWS, WORKER_ROWS, 0, &into) != RA_OK ||
                    !same_bits(rows, back, sizeof rows / sizeof *rows);
    }
    ra_storage_free(storage);
    return NULL;
}

static void threads_share_an_array(void **state)
{
    (void)state;
    const int64_t shape[] = {SHARED_HEADS, WORKERS * WORKER_ROWS, SHARED_DIM};
    worker workers[WORKERS];
    ra_array *array;
    assert_int_equal(ra_array_create("a.npy", RA_F32, 3, shape, &array), RA_OK);
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (worker){.array = array, .index = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_int_equal(workers[i].wrong, 0);
    }
    ra_array_close(array);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_moves_as_defined),
        IN_FOLDER(files_move_as_defined),
        IN_FOLDER(large_rows_move_in_parts),
        IN_FOLDER(lines_longer_than_the_staging),
        IN_FOLDER(no_rows_are_no_work),
        cmocka_unit_test(strides_of_ones_do_not_matter),
        IN_FOLDER(refuses_what_does_not_fit),
        IN_FOLDER(a_file_for_reading_is_not_written),
        cmocka_unit_test(refuses_ranges_that_are_not_there),
        cmocka_unit_test(refuses_heads_that_are_not_there),
        IN_FOLDER(single_heads_are_those_of_the_whole),
        IN_FOLDER(threads_share_an_array),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
