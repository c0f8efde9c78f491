/* The list of kernel tables; which of them this machine can run; which one to use. */
#include "base/cpu.h"
#include "kernel/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Best first. */
static const struct {
    const ra_kernel *kernel;
    unsigned needs; /* ra_cpu_feature bits */
} tables[] = {
#ifdef RA_HAVE_X86
    {&ra_kernel_avx512, RA_CPU_AVX512F | RA_CPU_AVX512DQ | RA_CPU_FMA | RA_CPU_F16C},
    {&ra_kernel_avx2, RA_CPU_AVX2 | RA_CPU_FMA | RA_CPU_F16C},
#endif
    {&ra_kernel_generic, 0},
};
enum { TABLES = sizeof tables / sizeof tables[0] };

const char *ra_kernel_name(ra_kernel_id id)
{
    switch (id) {
    case RA_KERNEL_AUTO: return "auto";
    case RA_KERNEL_GENERIC: return "generic";
    case RA_KERNEL_AVX2: return "avx2";
    case RA_KERNEL_AVX512: return "avx512";
    }
    return NULL;
}

static const ra_kernel *runnable(ra_kernel_id id)
{
    unsigned features = ra_cpu_features();
    for (int i = 0; i < TABLES; i++)
        if ((tables[i].needs & ~features) == 0 && (id == RA_KERNEL_AUTO || tables[i].kernel->id == id))
            return tables[i].kernel;
    return NULL;
}

int ra_kernel_available(ra_kernel_id id)
{
    return runnable(id) != NULL;
}

ra_status ra_kernel_find(ra_kernel_id id, const ra_kernel **kernel)
{
    const char *asked = id == RA_KERNEL_AUTO ? getenv("RA_KERNEL") : NULL, *source = "";
    if (asked && *asked) {
        source = "RA_KERNEL=";
        id = RA_KERNEL_GENERIC;
        while (ra_kernel_name(id) && strcmp(asked, ra_kernel_name(id)) != 0)
            id = (ra_kernel_id)(id + 1);
        if (!ra_kernel_name(id))
            return ra_fail(RA_ERROR_ARGUMENT, "RA_KERNEL=%s: expected generic, avx2 or avx512", asked);
    }
    const char *name = ra_kernel_name(id);
    if (!name)
        return ra_fail(RA_ERROR_ARGUMENT, "kernel %d: no such kernel", (int)id);
    *kernel = runnable(id);
    if (*kernel)
        return RA_OK;
    char can[64] = "";
    for (int i = TABLES - 1; i >= 0; i--)
        if (runnable(tables[i].kernel->id)) {
            size_t used = strlen(can);
            snprintf(can + used, sizeof can - used, "%s%s", used ? ", " : "", ra_kernel_name(tables[i].kernel->id));
        }
    return ra_fail(RA_ERROR_UNSUPPORTED, "kernel %s%s: this processor cannot run it; it can run %s", source, name, can);
}
