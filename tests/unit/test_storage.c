/* Ranges of rows out of and into storages, of any layout and strides, against a loop over single elements. */
#include "base/checked.h"
#include "io/storage.h"
#include "support/random.h"
#include "support/sample.h"
#include "support/unit.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Each test runs in an empty directory of its own. */
static int enter_directory(void **state)
{
    char name[] = "/tmp/ringattn-test-XXXXXX";
    if (!mkdtemp(name) || chdir(name) != 0)
        return -1;
    *state = malloc(sizeof name);
    if (!*state)
        return -1;
    memcpy(*state, name, sizeof name);
    return 0;
}

static int leave_directory(void **state)
{
    unlink("a.npy");
    int left = chdir("/") || rmdir(*state); /* fails when a test has left anything else */
    free(*state);
    return left;
}

/* ---- Tensors ----------------------------------------------------------------------------------------------------- */

typedef struct block {
    ra_tensor view;
    char *memory; /* owned: exactly what the view reaches, each element inside or outside it different */
    int64_t bytes;
} block;

static void fill(block *b, uint64_t seed)
{
    choices c = {seed};
    for (int64_t i = 0; i < b->bytes; i++)
        b->memory[i] = (char)choose_bits(&c);
}

/* A view of this shape with the axes in any order, gaps between them and some of them backwards. */
static block any_view(choices *c, ra_dtype dtype, int64_t batch, int64_t seq, int64_t heads, int64_t dim)
{
    block b = {.view = {.dtype = dtype, .batch = batch, .seq = seq, .heads = heads, .dim = dim}};
    ra_tensor *t = &b.view;
    struct {
        int64_t extent, *stride;
    } axes[] = {{batch, &t->batch_stride}, {seq, &t->seq_stride}, {heads, &t->head_stride}, {dim, &t->dim_stride}};
    int order[] = {0, 1, 2, 3}, kind = (int)choose(c, 0, 3);
    for (int i = 3; i > 0; i--) { /* kind 0: as [batch, seq, heads, dim]; 1: heads first; else anything */
        int other = kind < 2 ? i : (int)choose(c, 0, i), was = order[i];
        order[i] = order[other], order[other] = was;
    }
    if (kind == 1)
        order[1] = 2, order[2] = 1;
    int64_t next = 1, origin = 0, size = (int64_t)ra_dtype_size(dtype);
    for (int i = 3; i >= 0; i--) {
        int64_t step = next + (chance(c, 4) ? choose(c, 1, 3) : 0), extent = axes[order[i]].extent;
        bool backwards = kind == 3 && chance(c, 3);
        *axes[order[i]].stride = backwards ? -step : step;
        origin += backwards ? step * (extent - 1) : 0;
        next = step * (extent - 1) + next;
    }
    b.bytes = next * size;
    b.memory = malloc((size_t)b.bytes);
    assert_non_null(b.memory);
    t->data = b.memory + origin * size;
    return b;
}

static char *element(const ra_tensor *t, int64_t batch, int64_t row, int64_t head, int64_t d)
{
    return (char *)t->data +
           (batch * t->batch_stride + row * t->seq_stride + head * t->head_stride + d * t->dim_stride) *
               (int64_t)ra_dtype_size(t->dtype);
}

/* The definition: rows `to_first`... of one view from rows `from_first`... of another. */
static void copy_naively(const ra_tensor *to, int64_t to_batch, int64_t to_first, const ra_tensor *from,
                         int64_t from_batch, int64_t from_first, int64_t count)
{
    for (int64_t row = 0; row < count; row++)
        for (int64_t head = 0; head < to->heads; head++)
            for (int64_t d = 0; d < to->dim; d++)
                memcpy(element(to, to_batch, to_first + row, head, d),
                       element(from, from_batch, from_first + row, head, d), ra_dtype_size(to->dtype));
}

/* A second block like `b`, with the same content; its view points into it. */
static block twin(const block *b)
{
    block copy = *b;
    copy.memory = malloc((size_t)b->bytes);
    assert_non_null(copy.memory);
    memcpy(copy.memory, b->memory, (size_t)b->bytes);
    copy.view.data = copy.memory + ((char *)b->view.data - b->memory);
    return copy;
}

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
    assert_int_equal(
        ra_array_create("a.npy", t->dtype, no_batch || no_dim ? 3 : 4, shape + (no_batch ? 1 : 0), &s->array), RA_OK);
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
    stored s = {0};
    ra_dtype dtype = chance(c, 2) ? RA_F32 : RA_F16;
    int64_t batch = choose(c, 1, 3), seq = choose(c, 1, 40), heads = choose(c, 1, 5), dim = choose(c, 1, 20);
    if (chance(c, 4))
        dim = 1;
    if (large) /* several times the staging, with rows up to more than it */
        batch = 1, seq = choose(c, 2, 5), heads = choose(c, 1, 600), dim = choose(c, 1, 1024);
    if (!in_file) {
        s.tensor = any_view(c, chance(c, 3) ? RA_BF16 : dtype, batch, seq, heads, dim);
        fill(&s.tensor, choose_bits(c));
        make_memory(&s);
        return s;
    }
    ra_layout layout = chance(c, 2) ? RA_BSHD : RA_BHSD;
    s.tensor.bytes = batch * seq * heads * dim * (int64_t)ra_dtype_size(dtype);
    s.tensor.memory = malloc((size_t)s.tensor.bytes);
    assert_non_null(s.tensor.memory);
    s.tensor.view = ra_tensor_dense(s.tensor.memory, dtype, layout, batch, seq, heads, dim);
    fill(&s.tensor, choose_bits(c));
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

static void try_range(stored *s, choices *c, uint64_t seed)
{
    const ra_tensor *t = &s->tensor.view;
    int64_t batch = choose(c, 0, t->batch - 1), first = choose(c, 0, t->seq - 1);
    int64_t count = chance(c, 3) ? t->seq - first : choose(c, 1, t->seq - first);
    if (chance(c, 4))
        first = 0, count = t->seq;
    block view = any_view(c, t->dtype, 1, count, t->heads, t->dim);
    fill(&view, choose_bits(c));

    block expected = twin(&view);
    copy_naively(&expected.view, 0, 0, t, batch, first, count);
    assert_int_equal(ra_storage_read(s->storage, batch, first, count, &view.view), RA_OK);
    REQUIRE(memcmp(view.memory, expected.memory, (size_t)view.bytes) == 0, "seed %llu: read", (unsigned long long)seed);
    free(expected.memory);

    fill(&view, choose_bits(c));
    expected = twin(&s->tensor);
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
        for (int i = 0; i < 4; i++)
            try_range(&s, &c, seed);
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
    fill(&s.tensor, 1);
    make_file(&s, RA_BSHD, false);
    const ra_tensor into = {spread, RA_F32, 1, 2, 1, DIM, 0, 2 * DIM, 0, 2};
    assert_int_equal(ra_storage_read(s.storage, 0, 0, 2, &into), RA_OK);
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
    fill(&s.tensor, 1);
    make_file(&s, RA_BHSD, true);
    const ra_tensor none = ra_tensor_dense(values, RA_F32, RA_BSHD, 1, 0, 3, 4);
    assert_int_equal(ra_storage_read(s.storage, 0, 2, 0, &none), RA_OK);
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
    assert_int_equal(ra_storage_read(storage, 0, 0, 1, &into), RA_OK);
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
    assert_int_equal(ra_storage_read(storage, 0, 0, 3, &rows), RA_OK);
    ra_storage_free(storage);
    ra_array_close(array);
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
                    ra_storage_read(storage, 0, w->index * WORKER_ROWS, WORKER_ROWS, &into) != RA_OK ||
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

#define IN_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, enter_directory, leave_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_moves_as_defined), IN_DIRECTORY(files_move_as_defined),
        IN_DIRECTORY(large_rows_move_in_parts),    IN_DIRECTORY(lines_longer_than_the_staging),
        IN_DIRECTORY(no_rows_are_no_work),         cmocka_unit_test(strides_of_ones_do_not_matter),
        IN_DIRECTORY(refuses_what_does_not_fit),   IN_DIRECTORY(a_file_for_reading_is_not_written),
        IN_DIRECTORY(threads_share_an_array),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
