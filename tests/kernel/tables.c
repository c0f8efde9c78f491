/* SPDX-License-Identifier: Apache-2.0 */
/* The list of kernel tables that this machine can run. See tables.h. */
#include "tables.h"

#include "support/sample.h"
#include "support/unit.h"

#ifdef HAVE_EMULATED_AVX512
extern const ra_kernel ra_kernel_avx512_emulated, ra_kernel_avx512bf16_emulated;

/* SIMDe makes AVX-512 of AVX2, so that is what the processor must have. */
static const ra_kernel *emulated(ra_precision precision)
{
    if (!ra_kernel_available(RA_KERNEL_AVX2))
        return NULL;
    return precision == RA_PRECISION_FAST ? &ra_kernel_avx512bf16_emulated : &ra_kernel_avx512_emulated;
}
#else
static const ra_kernel *emulated(ra_precision precision)
{
    (void)precision;
    return NULL;
}
#endif

const tested_table *tested_tables(int *count)
{
    static tested_table tables[8];
    int found = 0;
    FOR_EACH_KERNEL (id) {
        tables[found].name = ra_kernel_name(id);
        assert_int_equal(ra_kernel_find(id, RA_PRECISION_AUTO, &tables[found].kernel), RA_OK);
        found++;
    }
    if (emulated(RA_PRECISION_EXACT))
        tables[found++] = (tested_table){"avx512 emulated", emulated(RA_PRECISION_EXACT)};
    *count = found;
    return tables;
}

const tested_table *tested_fast_tables(int *count)
{
    static tested_table tables[2];
    int found = 0;
    if (ra_kernel_available(RA_KERNEL_AVX512BF16)) {
        tables[found].name = "avx512bf16";
        assert_int_equal(ra_kernel_find(RA_KERNEL_AUTO, RA_PRECISION_FAST, &tables[found++].kernel), RA_OK);
    }
    if (emulated(RA_PRECISION_FAST))
        tables[found++] = (tested_table){"avx512bf16 emulated", emulated(RA_PRECISION_FAST)};
    *count = found;
    return tables;
}
