/* SPDX-License-Identifier: Apache-2.0 */
/* ringattn verify with a library that is wrong: the linker hands it another ra_forward and ra_backward. */
#include "cli/commands.h"
#include "cli/report.h"
#include "support/unit.h"

#include <getopt.h>

ra_status __real_ra_forward(const ra_plan *plan, const ra_tensor *q, const ra_tensor *k, const ra_tensor *v,
                            const ra_tensor *output, const ra_tensor *lse, ra_stats *stats);
ra_status __wrap_ra_forward(const ra_plan *plan, const ra_tensor *q, const ra_tensor *k, const ra_tensor *v,
                            const ra_tensor *output, const ra_tensor *lse, ra_stats *stats);

ra_status __real_ra_backward(const ra_plan *plan, const ra_tensor *q, const ra_tensor *k, const ra_tensor *v,
                             const ra_tensor *output, const ra_tensor *lse, const ra_tensor *d_output,
                             const ra_tensor *d_lse, const ra_tensor *d_q, const ra_tensor *d_k, const ra_tensor *d_v,
                             ra_stats *stats);
ra_status __wrap_ra_backward(const ra_plan *plan, const ra_tensor *q, const ra_tensor *k, const ra_tensor *v,
                             const ra_tensor *output, const ra_tensor *lse, const ra_tensor *d_output,
                             const ra_tensor *d_lse, const ra_tensor *d_q, const ra_tensor *d_k, const ra_tensor *d_v,
                             ra_stats *stats);

static double output_off, lse_off, gradients_off[3]; /* what one element is off by */

static void spoil(const ra_tensor *t, double off)
{
    if (off != 0)
        ra_tensor_set(t, t->batch - 1, t->seq / 2, t->heads - 1, t->dim - 1,
                      off + ra_tensor_get(t, t->batch - 1, t->seq / 2, t->heads - 1, t->dim - 1));
}

ra_status __wrap_ra_forward(const ra_plan *plan, const ra_tensor *q, const ra_tensor *k, const ra_tensor *v,
                            const ra_tensor *output, const ra_tensor *lse, ra_stats *stats)
{
    ra_status status = __real_ra_forward(plan, q, k, v, output, lse, stats);
    spoil(output, output_off);
    spoil(lse, lse_off);
    return status;
}

ra_status __wrap_ra_backward(const ra_plan *plan, const ra_tensor *q, const ra_tensor *k, const ra_tensor *v,
                             const ra_tensor *output, const ra_tensor *lse, const ra_tensor *d_output,
                             const ra_tensor *d_lse, const ra_tensor *d_q, const ra_tensor *d_k, const ra_tensor *d_v,
                             ra_stats *stats)
{
    ra_status status = __real_ra_backward(plan, q, k, v, output, lse, d_output, d_lse, d_q, d_k, d_v, stats);
    spoil(d_q, gradients_off[RA_GRADIENT_QUERY]);
    spoil(d_k, gradients_off[RA_GRADIENT_KEY]);
    spoil(d_v, gradients_off[RA_GRADIENT_VALUE]);
    return status;
}

static int verify(double output, double lse)
{
    char verb[] = "verify", quick[] = "--quick", *arguments[] = {verb, quick, NULL};
    output_off = output;
    lse_off = lse;
    optind = 1; /* or a second call would not see its option */
    return cmd_verify(2, arguments);
}

static void wrong_outputs_fail(void **state)
{
    (void)state;
    assert_int_equal(verify(0.5, 0), EXIT_WORK);
}

static void wrong_log_sum_exps_fail(void **state)
{
    (void)state;
    assert_int_equal(verify(0, 1e-3), EXIT_WORK);
}

static void wrong_gradients_fail(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        gradients_off[i] = 1e-3;
        assert_int_equal(verify(0, 0), EXIT_WORK);
        gradients_off[i] = 0;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_outputs_fail),
        cmocka_unit_test(wrong_log_sum_exps_fail),
        cmocka_unit_test(wrong_gradients_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
