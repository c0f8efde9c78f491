/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs that share memory with something are refused, however little of it; outputs in between are not. */
#include "ringattn/ringattn.h"
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>

/* One array holds queries, keys, values, outputs and room for more, side by side for each position. */
enum { SEQ = 70, HEADS = 3, DIM = 8, PARTS = 5, ROW = PARTS * HEADS * DIM, COUNT = SEQ * ROW };

static float memory[COUNT];
static ra_plan *plan;
static ra_ring_plan *ring;
static ra_comm *comm;

/* Heads 5 h + part: the parts lie between each other. */
static ra_tensor part_of(int part)
{
    return (ra_tensor){memory + part * DIM, RA_F32, 1, SEQ, HEADS, DIM, COUNT, ROW, PARTS * DIM, 1};
}

static ra_tensor lse_of(void)
{
    return (ra_tensor){memory + 4 * DIM, RA_F32, 1, SEQ, HEADS, 1, COUNT, ROW, PARTS * DIM, 1};
}

static ra_status run(const ra_tensor *output, const ra_tensor *lse)
{
    ra_tensor q = part_of(0), k = part_of(1), v = part_of(2);
    return ra_forward(plan, &q, &k, &v, output, lse, NULL);
}

static ra_status run_ring(const ra_tensor *output, const ra_tensor *lse)
{
    ra_tensor q = part_of(0), k = part_of(1), v = part_of(2);
    return ra_ring_forward(ring, comm, &q, &k, &v, output, lse, NULL);
}

static void refused(const ra_tensor *output, const ra_tensor *lse, const char *message)
{
    assert_int_equal(run(output, lse), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), message);
    assert_int_equal(run_ring(output, lse), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), message);
}

static void parts_between_each_other_are_legal(void **state)
{
    (void)state;
    float apart[SEQ * HEADS * DIM];
    ra_generate(RA_NORMAL, 1, 0, COUNT, memory);
    ra_tensor dense = ra_tensor_dense(apart, RA_F32, RA_BSHD, 1, SEQ, HEADS, DIM), output = part_of(3), lse = lse_of();
    assert_int_equal(run(&dense, NULL), RA_OK);
    assert_int_equal(run(&output, &lse), RA_OK);
    for (int i = 0; i < SEQ * HEADS; i++)
        assert_memory_equal((float *)output.data + i / HEADS * ROW + i % HEADS * PARTS * DIM, apart + i * DIM,
                            DIM * sizeof(float));
    assert_int_equal(run_ring(&output, &lse), RA_OK);
}

static void outputs_and_inputs(void **state)
{
    (void)state;
    ra_tensor output = part_of(0), lse = lse_of();
    refused(&output, NULL, "output: shares memory with query: must lie elsewhere");
    output = part_of(3), output.data = memory + 3 * DIM - 1; /* the last element of each value row */
    refused(&output, NULL, "output: shares memory with value: must lie elsewhere");
    output = part_of(1), output.data = memory + SEQ / 2 * ROW + DIM, output.seq_stride = -ROW / 2 / DIM * DIM;
    output.head_stride = DIM;
    assert_int_equal(run(&output, NULL), RA_ERROR_ARGUMENT);
    output = part_of(3), lse.data = memory + DIM;
    refused(&output, &lse, "lse: shares memory with key: must lie elsewhere");
}

static void outputs_and_each_other(void **state)
{
    (void)state;
    ra_tensor output = part_of(3), lse = lse_of();
    lse.data = memory + 4 * DIM - 1;
    refused(&output, &lse, "lse: shares memory with output: must lie elsewhere");
    output.seq_stride = 0;
    refused(&output, NULL, "output: strides [8400, 0, 40, 1] lead several of its elements to the same memory");
    output = part_of(3), output.head_stride = DIM - 1;
    refused(&output, NULL, "output: strides [8400, 120, 7, 1] lead several of its elements to the same memory");
    output = part_of(3), lse = lse_of(), lse.head_stride = 0;
    refused(&output, &lse, "lse: strides [8400, 120, 0, 1] lead several of its elements to the same memory");
}

/* Halves of one float are memory too. */
static void other_dtypes(void **state)
{
    (void)state;
    ra_tensor output = part_of(3);
    output.dtype = RA_BF16, output.seq_stride *= 2, output.head_stride *= 2;
    assert_int_equal(run(&output, NULL), RA_OK);
    output.data = (uint16_t *)(memory + 3 * DIM) - 1;
    refused(&output, NULL, "output: shares memory with value: must lie elsewhere");
}

static int set_up(void **state)
{
    (void)state;
    ra_problem problem = RA_PROBLEM_INIT;
    ra_ring_options options = RA_RING_OPTIONS_INIT;
    problem.q_len = SEQ, problem.heads = HEADS, problem.head_dim = DIM;
    options.ranks = 2;
    return ra_plan_create(&problem, NULL, &plan) || ra_ring_plan_create(&problem, NULL, &options, &ring) ||
           ra_comm_sim(2, &comm);
}

static int tear_down(void **state)
{
    (void)state;
    ra_plan_free(plan);
    ra_ring_plan_free(ring);
    ra_comm_free(comm);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts_between_each_other_are_legal),
                                       cmocka_unit_test(outputs_and_inputs), cmocka_unit_test(outputs_and_each_other),
                                       cmocka_unit_test(other_dtypes)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
