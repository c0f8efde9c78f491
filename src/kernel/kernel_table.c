/* SPDX-License-Identifier: Apache-2.0 */
/* The list of kernel tables; which of them this machine can run; which one to use. */
#include "base/cpu.h"
#include "kernel/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Best first, of each precision. */
static const struct {
    const ra_kernel *kernel;
    unsigned needs; /* ra_cpu_feature bits */
} tables[] = {
#ifdef RA_HAVE_X86
    {&ra_kernel_avx512bf16,
     RA_CPU_AVX512F | RA_CPU_AVX512DQ | RA_CPU_AVX512BW | RA_CPU_AVX512_BF16 | RA_CPU_FMA | RA_CPU_F16C},
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
    case RA_KERNEL_AVX512BF16: return "avx512bf16";
    }
    return NULL;
}

const char *ra_precision_name(ra_precision precision)
{
    static const char *const names[] = {"auto", "exact", "fast"};
    return precision >= RA_PRECISION_AUTO && precision <= RA_PRECISION_FAST ? names[precision] : NULL;
}

static bool can_run(int table)
{
    return (tables[table].needs & ~ra_cpu_features()) == 0;
}

static const ra_kernel *runnable(ra_kernel_id id)
{
    for (int i = 0; i < TABLES; i++)
        if (can_run(i) && (id == RA_KERNEL_AUTO || tables[i].kernel->id == id))
            return tables[i].kernel;
    return NULL;
}

/* The first table of a precision, and of an id if that names one. */
static const ra_kernel *best(ra_kernel_id id, ra_precision precision)
{
    for (int i = 0; i < TABLES; i++)
        if (can_run(i) && tables[i].kernel->precision == precision &&
            (id == RA_KERNEL_AUTO || tables[i].kernel->id == id))
            return tables[i].kernel;
    return NULL;
}

int ra_kernel_available(ra_kernel_id id)
{
    return runnable(id) != NULL;
}

ra_precision ra_kernel_precision(ra_kernel_id id)
{
    for (int i = 0; i < TABLES; i++)
        if (tables[i].kernel->id == id)
            return tables[i].kernel->precision;
    return RA_PRECISION_EXACT;
}

/* By the environment, for RA_KERNEL_AUTO. */
static ra_status find_named(ra_kernel_id *id, const char **source)
{
    const char *asked = *id == RA_KERNEL_AUTO ? getenv("RA_KERNEL") : NULL;
    *source = "";
    if (!asked || !*asked)
        return RA_OK;
    *source = "RA_KERNEL=";
    *id = RA_KERNEL_GENERIC;
    while (ra_kernel_name(*id) && strcmp(asked, ra_kernel_name(*id)) != 0)
        *id = (ra_kernel_id)(*id + 1);
    if (!ra_kernel_name(*id))
        return ra_fail(RA_ERROR_ARGUMENT, "RA_KERNEL=%s: expected generic, avx2, avx512 or avx512bf16", asked);
    return RA_OK;
}

static ra_status refuse_kernel(ra_kernel_id id, const char *source)
{
    char can[64] = "";
    for (int i = TABLES - 1; i >= 0; i--)
        if (runnable(tables[i].kernel->id)) {
            size_t used = strlen(can);
            snprintf(can + used, sizeof can - used, "%s%s", used ? ", " : "", ra_kernel_name(tables[i].kernel->id));
        }
    return ra_fail(RA_ERROR_UNSUPPORTED, "kernel %s%s: this processor cannot run it; it can run %s", source,
                   ra_kernel_name(id), can);
}

/* A kernel that was asked for has the other precision, or no kernel here has this one. */
static ra_status refuse_precision(ra_kernel_id id, ra_precision precision, const char *source)
{
    if (id == RA_KERNEL_AUTO)
        return ra_fail(RA_ERROR_UNSUPPORTED,
                       "precision fast: this processor has no products of bfloat16 (avx512_bf16); use exact or auto");
    if (precision == RA_PRECISION_FAST)
        return ra_fail(RA_ERROR_ARGUMENT, "precision fast: kernel %s%s multiplies in float32, exactly", source,
                       ra_kernel_name(id));
    return ra_fail(RA_ERROR_ARGUMENT, "precision exact: kernel %s%s multiplies in bfloat16", source,
                   ra_kernel_name(id));
}

/* What a table must have: of a kernel by name its own precision will do, and of any other auto begins with exact. */
static ra_precision needed(ra_kernel_id id, ra_precision precision)
{
    if (precision != RA_PRECISION_AUTO)
        return precision;
    return id == RA_KERNEL_AUTO ? RA_PRECISION_EXACT : ra_kernel_precision(id);
}

ra_status ra_kernel_find(ra_kernel_id id, ra_precision precision, const ra_kernel **kernel)
{
    const char *source;
    ra_status status = find_named(&id, &source);
    if (status)
        return status;
    if (!ra_kernel_name(id))
        return ra_fail(RA_ERROR_ARGUMENT, "kernel %d: no such kernel", (int)id);
    if (!ra_precision_name(precision))
        return ra_fail(RA_ERROR_ARGUMENT, "precision %d: no such precision", (int)precision);
    *kernel = best(id, needed(id, precision));
    if (*kernel)
        return RA_OK;
    return id != RA_KERNEL_AUTO && !runnable(id) ? refuse_kernel(id, source) : refuse_precision(id, precision, source);
}

bool ra_kernel_is_open(ra_kernel_id id, ra_precision precision)
{
    const char *source;
    return precision == RA_PRECISION_AUTO && !find_named(&id, &source) && id == RA_KERNEL_AUTO;
}

/* Tiles of a plan for one of two tables can be worked by the other. */
static bool same_blocking(const ra_blocking *a, const ra_blocking *b)
{
    return a->lanes == b->lanes && a->narrow == b->narrow && a->tile_groups == b->tile_groups &&
           a->tile_bytes == b->tile_bytes && a->decode_queries == b->decode_queries;
}

ra_status ra_kernel_of_run(ra_kernel_id id, bool open, bool all_bf16, const ra_kernel **kernel)
{
    ra_status status = ra_kernel_find(id, ra_kernel_precision(id), kernel);
    const ra_kernel *fast = status || !open || !all_bf16 ? NULL : best(RA_KERNEL_AUTO, RA_PRECISION_FAST);
    if (fast && same_blocking(&fast->blocking, &(*kernel)->blocking))
        *kernel = fast;
    return status;
}

ra_status ra_precision_check(ra_precision precision, const ra_tensor *const tensors[], const char *const names[],
                             int count)
{
    for (int i = 0; precision == RA_PRECISION_FAST && i < count; i++)
        if (tensors[i] && tensors[i]->dtype != RA_BF16)
            return ra_fail(RA_ERROR_ARGUMENT, "precision fast: %s is %s: must be bfloat16", names[i],
                           ra_dtype_name(tensors[i]->dtype));
    return RA_OK;
}
