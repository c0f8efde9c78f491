/* SPDX-License-Identifier: Apache-2.0 */
/* ringattn info: what this build is and what machine it runs on. */
#include "args.h"
#include "bench/bench.h"
#include "commands.h"
#include "job.h"
#include "report.h"

#include <jansson.h>
#include <png.h>
#include <stdio.h>

static void print_bytes(const char *name, int64_t bytes)
{
    char text[RA_BYTES_TEXT] = "unknown";
    if (bytes > 0)
        ra_bytes_text(bytes, text);
    printf("%-18s%s\n", name, text);
}

/* What is said of a kernel that can run. */
static const char *remark(const ra_system_info *info, ra_kernel_id id)
{
    if (ra_kernel_precision(id) == RA_PRECISION_FAST)
        return " (if all is bfloat16)";
    return info->kernel == id ? " (chosen)" : "";
}

static void print_kernels(const ra_system_info *info)
{
    const char *separator = "";
    printf("%-18s", "kernels");
    for (int id = RA_KERNEL_GENERIC; ra_kernel_name((ra_kernel_id)id); id++)
        if (ra_kernel_available((ra_kernel_id)id)) {
            printf("%s%s%s", separator, ra_kernel_name((ra_kernel_id)id), remark(info, (ra_kernel_id)id));
            separator = ", ";
        }
    putchar('\n');
}

int cmd_info(int argc, char **argv)
{
    const arg_command command = {
        .verb = "info",
        .summary = "Version, processor, instruction sets, threads, caches and what is built in.",
        .example = "ringattn info",
    };
    int code = args_parse(&command, argc, argv);
    if (code != ARGS_RUN)
        return code;
    ra_system_info info = RA_SYSTEM_INFO_INIT;
    if (ra_system_describe(&info))
        return report_refusal();
    printf("%-18s%s\n", "ringattn", ra_version());
    printf("%-18s%s\n", "processor", info.processor);
    printf("%-18s%s\n", "instruction sets", info.instruction_sets);
    print_kernels(&info);
    printf("%-18s%d\n", "threads", info.cores);
    print_bytes("L1 data cache", info.l1_bytes);
    print_bytes("L2 cache", info.l2_bytes);
    print_bytes("L3 cache", info.l3_bytes);
    print_bytes("memory", info.memory_bytes);
    printf("%-18s%s\n", "compiler", info.compiler);
    printf("%-18s%s\n", "OpenMP", *info.openmp ? info.openmp : "no");
    printf("%-18s%s\n", "MPI", job_mpi_name() ? job_mpi_name() : "no");
    printf("%-18s%s\n", "BLAS", bench_layer_blas() ? bench_layer_blas() : "no");
    printf("%-18slibpng %s\n", "PNG", png_get_libpng_ver(NULL));
    printf("%-18sjansson %s\n", "JSON", jansson_version_str());
    return EXIT_OK;
}
