/* SPDX-License-Identifier: Apache-2.0 */
/* The short runs of a calibration have the scores of the problem that is asked about. Nothing here is measured. */
#include "bench/trial.h"
#include "support/unit.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

enum { LENGTH = 96, HEADS = 2, DIM = 8 };

/* The largest element of what a run of this form gives. */
static double largest(const char *scores, const trial_form *form)
{
    bench_shape shape = bench_shape_square(LENGTH, HEADS, DIM);
    trial_tensors tensors;
    trial t;
    double most = 0;
    assert_int_equal(trial_tensors_take(&tensors, &shape, scores, false), RA_OK);
    REQUIRE(trial_prepare(&t, form, &tensors, NULL) == RA_OK, "%s: %s", scores, ra_last_message());
    assert_int_equal(trial_run(&t), RA_OK);
    for (int64_t i = 0; i < form->q_len * HEADS * DIM; i++) {
        double x = ra_tensor_get(&tensors.inputs.output, 0, i / DIM / HEADS, i / DIM % HEADS, i % DIM);
        most = x > most ? x : most;
    }
    trial_free(&t);
    trial_tensors_give(&tensors);
    return most;
}

static void put(const char *path, const char *shape, int64_t count)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    char header[118];
    snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }", shape);
    fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, file);
    fprintf(file, "%-117s\n", header);
    for (int64_t i = 0; i < count; i++)
        fwrite(&(float){1}, sizeof(float), 1, file);
    assert_int_equal(ftell(file), 128 + count * (int64_t)sizeof(float));
    fclose(file);
}

/* With a cap of almost 0 all weights are alike, and outputs are means. */
static void runs_have_the_scores(void **state)
{
    (void)state;
    static const trial_form forms[] = {
        {.pattern = "full", .q_len = LENGTH, .kv_len = LENGTH},
        {.pattern = "full", .q_len = 1, .kv_len = LENGTH},
        {"full", LENGTH, LENGTH, 3, RA_STRATEGY_RING, RA_ORDER_ZIGZAG, false},
        {"full", LENGTH, LENGTH, 2, RA_STRATEGY_ALLGATHER, RA_ORDER_STRIPED, true},
    };
    put("trial_bias.npy", "1, 1, 700, 700", 700 * 700);
    put("trial_keys.npy", "1, 1, 1, 700", 700);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        double plain = largest(NULL, &forms[i]), capped = largest("softcap:0.00001", &forms[i]);
        double all = largest("alibi:@of_the_problem+relative:@x+sinks:@y+dropout:0.5:seed=3+softcap:0.00001"
                             "+bias:@trial_bias.npy",
                             &forms[i]);
        double keys = largest("bias:@trial_keys.npy+softcap:0.00001", &forms[i]);
        REQUIRE(capped < 0.7 * plain, "form %zu: at most %g capped, %g without scores", i, capped, plain);
        REQUIRE(all > 1.02 * capped || all < 0.98 * capped, "form %zu: at most %g with dropout, %g without", i, all,
                capped);
        REQUIRE(fabs(keys - capped) < 1e-4, "form %zu: at most %g with a bias of zeros, %g without", i, keys, capped);
    }
    unlink("trial_bias.npy");
    unlink("trial_keys.npy");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(runs_have_the_scores)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
