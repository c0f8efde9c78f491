/* ringattn verify with a library that is wrong: the linker hands it another ra_forward. */
#include "cli/commands.h"
#include "cli/report.h"
#include "support/unit.h"

ra_status __real_ra_forward(const ra_plan *plan, const ra_tensor *q, const ra_tensor *k, const ra_tensor *v,
                            const ra_tensor *output, const ra_tensor *lse, ra_stats *stats);
ra_status __wrap_ra_forward(const ra_plan *plan, const ra_tensor *q, const ra_tensor *k, const ra_tensor *v,
                            const ra_tensor *output, const ra_tensor *lse, ra_stats *stats);

static double output_off, lse_off; /* what one element is off by */

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

static int verify(double output, double lse)
{
    char verb[] = "verify", quick[] = "--quick", *arguments[] = {verb, quick, NULL};
    output_off = output;
    lse_off = lse;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_outputs_fail),
        cmocka_unit_test(wrong_log_sum_exps_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
