/* SPDX-License-Identifier: Apache-2.0 */
/* The list of kernel tables that this machine can run. See tables.h. */
#include "tables.h"

#include "support/sample.h"
#include "support/unit.h"

#ifdef HAVE_EMULATED_AVX512
extern const ra_kernel ra_kernel_avx512_emulated;

/* SIMDe makes AVX-512 of AVX2, so that is what the processor must have. */
static const ra_kernel *emulated(void)
{
    return ra_kernel_available(RA_KERNEL_AVX2) ? &ra_kernel_avx512_emulated : NULL;
}
#else
static const ra_kernel *emulated(void)
{
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
    if (emulated())
        tables[found++] = (tested_table){"avx512 emulated", emulated()};
    *count = found;
    return tables;
}
