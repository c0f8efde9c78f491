/* SPDX-License-Identifier: Apache-2.0 */
/* Precision: which kernels are exact, what is refused with which reason, and inputs that fast is not for. */
#include "kernel/kernel.h"
#include "plan/plan.h"
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>

static void names(void **state)
{
    (void)state;
    assert_string_equal(ra_precision_name(RA_PRECISION_AUTO), "auto");
    assert_string_equal(ra_precision_name(RA_PRECISION_EXACT), "exact");
    assert_string_equal(ra_precision_name(RA_PRECISION_FAST), "fast");
    assert_null(ra_precision_name((ra_precision)3));
    assert_null(ra_precision_name((ra_precision)-1));
}

/* Without dtypes auto and exact take the same table, which says what it is; but a fast one that is named is fast. */
static void tables_say_what_they_are(void **state)
{
    (void)state;
    const ra_kernel *kernel = NULL, *exact = NULL;
    for (int id = RA_KERNEL_AUTO; ra_kernel_name((ra_kernel_id)id); id++) {
        if (!ra_kernel_available((ra_kernel_id)id))
            continue;
        assert_int_equal(ra_kernel_find((ra_kernel_id)id, RA_PRECISION_AUTO, &kernel), RA_OK);
        if (id == RA_KERNEL_AVX512BF16) {
            assert_int_equal(kernel->precision, RA_PRECISION_FAST);
            assert_int_equal(ra_kernel_precision(kernel->id), RA_PRECISION_FAST);
            assert_int_equal(ra_kernel_find((ra_kernel_id)id, RA_PRECISION_EXACT, &exact), RA_ERROR_ARGUMENT);
            assert_string_equal(ra_last_message(), "precision exact: kernel avx512bf16 multiplies in bfloat16");
            continue;
        }
        assert_int_equal(ra_kernel_find((ra_kernel_id)id, RA_PRECISION_EXACT, &exact), RA_OK);
        assert_ptr_equal(kernel, exact);
        assert_int_equal(kernel->precision, RA_PRECISION_EXACT);
        assert_int_equal(ra_kernel_precision(kernel->id), RA_PRECISION_EXACT);
    }
}

static void plan_refused(ra_kernel_id kernel, ra_precision precision, ra_status expected, const char *message)
{
    ra_problem problem = RA_PROBLEM_INIT;
    ra_options options = RA_OPTIONS_INIT;
    ra_plan *plan = NULL;
    problem.q_len = 1, problem.heads = 1, problem.head_dim = 4;
    options.kernel = kernel, options.precision = precision;
    assert_int_equal(ra_plan_create(&problem, &options, &plan), expected);
    assert_null(plan);
    REQUIRE(strstr(ra_last_message(), message), "%s", ra_last_message());
}

static void fast_is_refused_with_the_reason(void **state)
{
    (void)state;
    unsetenv("RA_KERNEL");
    if (!ra_kernel_available(RA_KERNEL_AVX512BF16))
        plan_refused(RA_KERNEL_AUTO, RA_PRECISION_FAST, RA_ERROR_UNSUPPORTED,
                     "precision fast: this processor has no products of bfloat16 (avx512_bf16); use exact or auto");
    plan_refused(RA_KERNEL_GENERIC, RA_PRECISION_FAST, RA_ERROR_ARGUMENT,
                 "precision fast: kernel generic multiplies in float32");
    setenv("RA_KERNEL", "generic", 1);
    plan_refused(RA_KERNEL_AUTO, RA_PRECISION_FAST, RA_ERROR_ARGUMENT,
                 "precision fast: kernel RA_KERNEL=generic multiplies in float32");
    unsetenv("RA_KERNEL");
    plan_refused(RA_KERNEL_AUTO, (ra_precision)7, RA_ERROR_ARGUMENT, "precision 7: no such precision");
}

/* What a run with a fast kernel would refuse. */
static void fast_is_for_bfloat16_alone(void **state)
{
    (void)state;
    float x[4] = {0};
    const ra_tensor narrow = ra_tensor_dense(x, RA_BF16, RA_BSHD, 1, 1, 1, 4);
    const ra_tensor wide = ra_tensor_dense(x, RA_F32, RA_BSHD, 1, 1, 1, 4);
    const ra_tensor *const tensors[] = {&narrow, NULL, &wide};
    static const char *const names_of[] = {"query", "key", "value"};
    assert_int_equal(ra_precision_check(RA_PRECISION_FAST, tensors, names_of, 2), RA_OK);
    assert_int_equal(ra_precision_check(RA_PRECISION_EXACT, tensors, names_of, 3), RA_OK);
    assert_int_equal(ra_precision_check(RA_PRECISION_AUTO, tensors, names_of, 3), RA_OK);
    assert_int_equal(ra_precision_check(RA_PRECISION_FAST, tensors, names_of, 3), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "precision fast: value is float32: must be bfloat16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(tables_say_what_they_are),
        cmocka_unit_test(fast_is_refused_with_the_reason),
        cmocka_unit_test(fast_is_for_bfloat16_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
