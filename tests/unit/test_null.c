/* SPDX-License-Identifier: Apache-2.0 */
/* NULL where an object is required: RA_ERROR_ARGUMENT from functions with a status, nothing harmful from the others. */
#include "ringattn/transport.h"
#include "support/planned.h"
#include "support/unit.h"

#include <string.h>

#define REFUSED(call) assert_int_equal(call, RA_ERROR_ARGUMENT)

static void structs_to_set_up(void **state)
{
    (void)state;
    REFUSED(ra_problem_init(NULL, sizeof(ra_problem)));
    REFUSED(ra_options_init(NULL, sizeof(ra_options)));
    REFUSED(ra_plan_info_init(NULL, sizeof(ra_plan_info)));
    REFUSED(ra_stats_init(NULL, sizeof(ra_stats)));
    REFUSED(ra_array_info_init(NULL, sizeof(ra_array_info)));
    REFUSED(ra_ring_options_init(NULL, sizeof(ra_ring_options)));
    REFUSED(ra_rank_info_init(NULL, sizeof(ra_rank_info)));
    REFUSED(ra_rank_stats_init(NULL, sizeof(ra_rank_stats)));
    REFUSED(ra_checkpoint_options_init(NULL, sizeof(ra_checkpoint_options)));
    REFUSED(ra_system_info_init(NULL, sizeof(ra_system_info)));
}

static void tensors(void **state)
{
    (void)state;
    ra_tensor nowhere = ra_tensor_dense(NULL, RA_F32, RA_BSHD, 1, 1, 1, 1);
    assert_true(ra_tensor_get(NULL, 0, 0, 0, 0) == 0);
    assert_true(ra_tensor_get(&nowhere, 0, 0, 0, 0) == 0);
    ra_tensor_set(NULL, 0, 0, 0, 0, 1);
    ra_tensor_set(&nowhere, 0, 0, 0, 0, 1);
}

static void made_up_data(void **state)
{
    (void)state;
    ra_generate(RA_NORMAL, 1, 0, 3, NULL);
    REFUSED(ra_generate_as(RA_NORMAL, 1, 0, 3, RA_F32, NULL));
    REFUSED(ra_generate_as(RA_NORMAL, 1, 0, 3, RA_F16, NULL));
}

static void plans(void **state)
{
    (void)state;
    ra_problem problem = problem_of(8, 1, 1, 4, "full");
    ra_plan *plan = NULL;
    uint8_t counts[8];
    ra_plan_info info = RA_PLAN_INFO_INIT;
    REFUSED(ra_plan_create(&problem, NULL, NULL));
    REFUSED(ra_plan_create(NULL, NULL, &plan));
    REFUSED(ra_plan_describe(NULL, &info));
    REFUSED(ra_plan_visible(NULL, 0, 0, 0, 8, counts));
    REFUSED(ra_plan_visible_element(NULL, 0, 0, 0, 0, 8, counts));
    assert_int_equal(ra_plan_create(&problem, NULL, &plan), RA_OK);
    REFUSED(ra_plan_describe(plan, NULL));
    REFUSED(ra_plan_visible(plan, 0, 0, 0, 8, NULL));
    REFUSED(ra_plan_visible_element(plan, 0, 0, 0, 0, 8, NULL));
    ra_plan_free(plan);
    ra_plan_free(NULL);
    assert_null(ra_preset(NULL));
    REFUSED(ra_system_describe(NULL));
}

static void runs(void **state)
{
    (void)state;
    float x[4][32] = {{0}};
    double row[4];
    ra_problem problem = problem_of(8, 1, 1, 4, "full");
    ra_plan *plan = NULL;
    assert_int_equal(ra_plan_create(&problem, NULL, &plan), RA_OK);
    ra_tensor t[4], nowhere = ra_tensor_dense(NULL, RA_F32, RA_BSHD, 1, 8, 1, 4);
    for (int i = 0; i < 4; i++)
        t[i] = ra_tensor_dense(x[i], RA_F32, RA_BSHD, 1, 8, 1, 4);
    REFUSED(ra_forward(NULL, &t[0], &t[1], &t[2], &t[3], NULL, NULL));
    for (int missing = 0; missing < 4; missing++) {
        const ra_tensor *g[4] = {&t[0], &t[1], &t[2], &t[3]};
        g[missing] = NULL;
        REFUSED(ra_forward(plan, g[0], g[1], g[2], g[3], NULL, NULL));
        if (missing < 3)
            REFUSED(ra_reference_row(plan, g[0], g[1], g[2], 0, 0, 0, row, NULL));
        g[missing] = &nowhere;
        REFUSED(ra_forward(plan, g[0], g[1], g[2], g[3], NULL, NULL));
    }
    REFUSED(ra_reference_row(NULL, &t[0], &t[1], &t[2], 0, 0, 0, row, NULL));
    REFUSED(ra_reference_row(plan, &t[0], &t[1], &t[2], 0, 0, 0, NULL, NULL));
    ra_plan_free(plan);
}

static void array_paths(void **state)
{
    (void)state;
    const int64_t shape[1] = {3};
    ra_array *array = NULL;
    const char *name = "something";
    assert_int_equal(ra_array_split_path(NULL, &name), 0);
    assert_null(name);
    assert_int_equal(ra_array_split_path("x.safetensors#y", NULL), strlen("x.safetensors"));
    REFUSED(ra_array_open(NULL, &array));
    REFUSED(ra_array_open("x.npy", NULL));
    REFUSED(ra_array_create(NULL, RA_F32, 1, shape, &array));
    REFUSED(ra_array_create("x.npy", RA_F32, 1, NULL, &array));
    REFUSED(ra_array_create("x.npy", RA_F32, 1, shape, NULL));
    REFUSED(ra_array_join(NULL, RA_F32, 1, shape, &array));
    REFUSED(ra_array_join("x.npy", RA_F32, 1, NULL, &array));
    REFUSED(ra_array_join("x.npy", RA_F32, 1, shape, NULL));
}

static void arrays(void **state)
{
    (void)state;
    const int64_t shape[1] = {3};
    float values[3] = {0};
    ra_array *array = NULL;
    ra_array_info info = RA_ARRAY_INFO_INIT;
    REFUSED(ra_array_describe(NULL, &info));
    REFUSED(ra_array_read(NULL, 0, 1, values));
    REFUSED(ra_array_write(NULL, 0, 1, values));
    REFUSED(ra_array_commit(NULL));
    ra_array_close(NULL);
    assert_int_equal(ra_array_create("test_null.npy", RA_F32, 1, shape, &array), RA_OK);
    REFUSED(ra_array_describe(array, NULL));
    REFUSED(ra_array_read(array, 0, 3, NULL));
    REFUSED(ra_array_write(array, 0, 3, NULL));
    assert_int_equal(ra_array_write(array, 0, 0, NULL), RA_OK);
    ra_storage *storage = NULL;
    REFUSED(ra_storage_array(array, NULL, &storage));
    ra_tensor view = ra_tensor_dense(NULL, RA_F32, RA_BSHD, 1, 3, 1, 1);
    REFUSED(ra_storage_array(array, &view, NULL));
    REFUSED(ra_storage_array(NULL, &view, &storage));
    ra_array_close(array);
}

static void storages(void **state)
{
    (void)state;
    float values[3] = {0};
    uint64_t sum;
    ra_storage *storage = NULL;
    ra_tensor t = ra_tensor_dense(values, RA_F32, RA_BSHD, 1, 3, 1, 1), nowhere = t;
    nowhere.data = NULL;
    REFUSED(ra_storage_memory(NULL, &storage));
    REFUSED(ra_storage_memory(&t, NULL));
    REFUSED(ra_storage_memory(&nowhere, &storage));
    REFUSED(ra_storage_generator(RA_NORMAL, 1, NULL, &storage));
    REFUSED(ra_storage_generator(RA_NORMAL, 1, &t, NULL));
    REFUSED(ra_storage_null(NULL, NULL, 0, NULL, &storage));
    REFUSED(ra_storage_null(&t, NULL, 0, NULL, NULL));
    REFUSED(ra_storage_null(&t, NULL, 1, values, &storage));
    REFUSED(ra_storage_checksum(NULL, &sum));
    REFUSED(ra_storage_read(NULL, 0, 0, 3, 0, &t));
    REFUSED(ra_storage_write(NULL, 0, 0, 3, &t));
    assert_int_equal(ra_storage_memory(&t, &storage), RA_OK);
    REFUSED(ra_storage_read(storage, 0, 0, 3, 0, NULL));
    REFUSED(ra_storage_read(storage, 0, 0, 3, 0, &nowhere));
    REFUSED(ra_storage_write(storage, 0, 0, 3, NULL));
    REFUSED(ra_storage_write(storage, 0, 0, 3, &nowhere));
    ra_storage_free(storage);
    ra_storage_free(NULL);
}

static void reference_rows(void **state)
{
    (void)state;
    float values[8] = {0};
    double output[1];
    ra_row row = {0, 0, 0};
    ra_problem problem = problem_of(8, 1, 1, 1, "full");
    ra_plan *plan = NULL;
    ra_storage *s = NULL;
    ra_tensor t = ra_tensor_dense(values, RA_F32, RA_BSHD, 1, 8, 1, 1);
    assert_int_equal(ra_plan_create(&problem, NULL, &plan), RA_OK);
    assert_int_equal(ra_storage_memory(&t, &s), RA_OK);
    REFUSED(ra_reference_rows(NULL, s, s, s, &row, 1, output, NULL));
    REFUSED(ra_reference_rows(plan, NULL, s, s, &row, 1, output, NULL));
    REFUSED(ra_reference_rows(plan, s, NULL, s, &row, 1, output, NULL));
    REFUSED(ra_reference_rows(plan, s, s, NULL, &row, 1, output, NULL));
    REFUSED(ra_reference_rows(plan, s, s, s, NULL, 1, output, NULL));
    REFUSED(ra_reference_rows(plan, s, s, s, &row, 1, NULL, NULL));
    double spread[1], size[1];
    REFUSED(ra_reference_rows_sized(NULL, s, s, s, &row, 1, output, NULL, spread, size));
    REFUSED(ra_reference_rows_sized(plan, s, s, NULL, &row, 1, output, NULL, spread, size));
    REFUSED(ra_reference_rows_sized(plan, s, s, s, &row, 1, NULL, NULL, spread, size));
    REFUSED(ra_reference_rows_sized(plan, s, s, s, &row, 1, output, NULL, NULL, size));
    REFUSED(ra_reference_rows_sized(plan, s, s, s, &row, 1, output, NULL, spread, NULL));
    ra_storage_free(s);
    ra_plan_free(plan);
}

static void ring_plans(void **state)
{
    (void)state;
    ra_problem problem = problem_of(8, 1, 1, 4, "full");
    ra_ring_options options = RA_RING_OPTIONS_INIT;
    ra_ring_plan *plan = NULL;
    ra_rank_info info = RA_RANK_INFO_INIT;
    ra_piece piece;
    int ranks;
    REFUSED(ra_ring_plan_create(NULL, NULL, &options, &plan));
    REFUSED(ra_ring_plan_create(&problem, NULL, &options, NULL));
    assert_null(ra_ring_plan_problem(NULL));
    assert_int_equal(ra_ring_plan_process_bytes(NULL), 0);
    REFUSED(ra_ring_plan_rank(NULL, 0, &info));
    REFUSED(ra_ring_smallest(NULL, NULL, &options, &ranks));
    REFUSED(ra_ring_smallest(&problem, NULL, NULL, &ranks));
    REFUSED(ra_ring_smallest(&problem, NULL, &options, NULL));
    REFUSED(ra_ring_plan_queries(NULL, 0, 0, &piece));
    REFUSED(ra_ring_plan_keys(NULL, 0, 0, &piece));
    assert_int_equal(ra_ring_plan_create(&problem, NULL, &options, &plan), RA_OK);
    REFUSED(ra_ring_plan_rank(plan, 0, NULL));
    REFUSED(ra_ring_plan_queries(plan, 0, 0, NULL));
    REFUSED(ra_ring_plan_keys(plan, 0, 0, NULL));
    ra_ring_plan_free(plan);
    ra_ring_plan_free(NULL);
}

static void ring_runs(void **state)
{
    (void)state;
    float values[4][32] = {{0}};
    ra_problem problem = problem_of(8, 1, 1, 4, "full");
    ra_ring_options options = RA_RING_OPTIONS_INIT;
    ra_ring_plan *plan = NULL;
    ra_comm *comm = NULL;
    ra_tensor t[4];
    for (int i = 0; i < 4; i++)
        t[i] = ra_tensor_dense(values[i], RA_F32, RA_BSHD, 1, 8, 1, 4);
    assert_int_equal(ra_ring_plan_create(&problem, NULL, &options, &plan), RA_OK);
    assert_int_equal(ra_comm_sim(1, &comm), RA_OK);
    REFUSED(ra_ring_split(NULL, 0, 0, &t[0], &t[1]));
    REFUSED(ra_ring_split(plan, 0, 0, NULL, &t[1]));
    REFUSED(ra_ring_split(plan, 0, 0, &t[0], NULL));
    REFUSED(ra_ring_gather(NULL, 0, 0, &t[0], &t[1]));
    REFUSED(ra_ring_gather(plan, 0, 0, NULL, &t[1]));
    REFUSED(ra_ring_gather(plan, 0, 0, &t[0], NULL));
    REFUSED(ra_ring_forward(NULL, comm, &t[0], &t[1], &t[2], &t[3], NULL, NULL));
    REFUSED(ra_ring_forward(plan, NULL, &t[0], &t[1], &t[2], &t[3], NULL, NULL));
    for (int missing = 0; missing < 4; missing++) {
        const ra_tensor *g[4] = {&t[0], &t[1], &t[2], &t[3]};
        g[missing] = NULL;
        REFUSED(ra_ring_forward(plan, comm, g[0], g[1], g[2], g[3], NULL, NULL));
        ra_tensor nowhere = t[missing];
        nowhere.data = NULL;
        g[missing] = &nowhere;
        REFUSED(ra_ring_forward(plan, comm, g[0], g[1], g[2], g[3], NULL, NULL));
    }
    ra_comm_free(comm);
    ra_ring_plan_free(plan);
}

static void stored_ring_runs(void **state)
{
    (void)state;
    float values[32] = {0};
    ra_problem problem = problem_of(8, 1, 1, 4, "full");
    ra_ring_options options = stored_ring(1, RA_TRANSPORT_SIM, RA_ORDER_CONTIGUOUS, RA_F32);
    ra_ring_plan *plan = NULL;
    ra_comm *comm = NULL;
    ra_storage *s = NULL;
    ra_tensor t = ra_tensor_dense(values, RA_F32, RA_BSHD, 1, 8, 1, 4);
    assert_int_equal(ra_ring_plan_create(&problem, NULL, &options, &plan), RA_OK);
    assert_int_equal(ra_comm_sim(1, &comm), RA_OK);
    assert_int_equal(ra_storage_memory(&t, &s), RA_OK);
    REFUSED(ra_ring_run(NULL, comm, s, s, s, s, NULL, NULL));
    REFUSED(ra_ring_run(plan, NULL, s, s, s, s, NULL, NULL));
    REFUSED(ra_ring_run(plan, comm, NULL, s, s, s, NULL, NULL));
    REFUSED(ra_ring_run(plan, comm, s, NULL, s, s, NULL, NULL));
    REFUSED(ra_ring_run(plan, comm, s, s, NULL, s, NULL, NULL));
    REFUSED(ra_ring_run(plan, comm, s, s, s, NULL, NULL, NULL));
    REFUSED(ra_ring_run_saved(NULL, comm, s, s, s, s, NULL, NULL, NULL));
    ra_checkpoint *checkpoint = NULL;
    ra_checkpoint_options saving = RA_CHECKPOINT_OPTIONS_INIT;
    REFUSED(ra_checkpoint_open(NULL, plan, &checkpoint));
    REFUSED(ra_checkpoint_open(&saving, plan, &checkpoint)); /* no path */
    saving.path = "test_null.checkpoint";
    REFUSED(ra_checkpoint_open(&saving, NULL, &checkpoint));
    REFUSED(ra_checkpoint_open(&saving, plan, NULL));
    saving.input_count = 1;
    REFUSED(ra_checkpoint_open(&saving, plan, &checkpoint));
    ra_storage_free(s);
    ra_comm_free(comm);
    ra_ring_plan_free(plan);
}

static void checkpoints(void **state)
{
    (void)state;
    assert_int_equal(ra_checkpoint_found(NULL), 0);
    ra_checkpoint_remove(NULL);
    ra_checkpoint_free(NULL);
}

static void communicators(void **state)
{
    (void)state;
    ra_comm *comm = NULL;
    REFUSED(ra_comm_sim(1, NULL));
    REFUSED(ra_comm_threads(1, NULL));
    REFUSED(ra_comm_custom(NULL, &comm));
    REFUSED(ra_comm_custom(&(ra_transport){.size = sizeof(ra_transport)}, NULL));
    assert_int_equal(ra_comm_rank(NULL), -1);
    assert_int_equal(ra_comm_ranks(NULL), 0);
    REFUSED(ra_comm_agree(NULL, RA_OK, 1));
    ra_comm_free(NULL);
}

static void messages(void **state)
{
    (void)state;
    ra_status (*say)(ra_status, const char *, ...) = ra_transport_fail; /* the compiler would refuse it otherwise */
    const char *volatile nothing = NULL;
    assert_int_equal(say(RA_ERROR_FILE, nothing), RA_ERROR_FILE);
    assert_non_null(ra_last_message());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structs_to_set_up),
        cmocka_unit_test(tensors),
        cmocka_unit_test(made_up_data),
        cmocka_unit_test(plans),
        cmocka_unit_test(runs),
        cmocka_unit_test(array_paths),
        cmocka_unit_test(arrays),
        cmocka_unit_test(storages),
        cmocka_unit_test(reference_rows),
        cmocka_unit_test(ring_plans),
        cmocka_unit_test(ring_runs),
        cmocka_unit_test(stored_ring_runs),
        cmocka_unit_test(checkpoints),
        cmocka_unit_test(communicators),
        cmocka_unit_test(messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
