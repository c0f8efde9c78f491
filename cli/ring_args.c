/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of a ring, their checks, and what they are to the library. The run itself: ring_run.c. See ring_args.h.
 */
#include "ring_args.h"

#include "report.h"

#include <string.h>

void ring_args_options(ring_args *args, arg_option options[RING_OPTIONS])
{
    static const char *const STRATEGIES[] = {"ring", "allgather", "broadcast", NULL};
    static const char *const TRANSPORTS[] = {"sim", "threads", "mpi", NULL};
    static const char *const ORDERS[] = {"contiguous", "zigzag", "striped", NULL};
    static const char *const TILES[] = {"row", "serpentine", "hilbert", NULL};
    static const char *const PRECISIONS[] = {"auto", "exact", "fast", NULL};
    static const char *const KERNELS[] = {"generic", "avx2", "avx512", "avx512bf16", NULL};
    *args = (ring_args){.strategy = -1, .transport = -1, .order = -1, .timeout = RING_TIMEOUT, .kernel = -1};
    const arg_option table[RING_OPTIONS] = {
        {.name = "ring",
         .kind = ARG_INTEGER,
         .metavar = "R",
         .target = &args->ring,
         .min = 1,
         .max = 65536,
         .help = "spread the sequence over R ranks"},
        {.name = "strategy",
         .kind = ARG_CHOICE,
         .metavar = "NAME",
         .target = &args->strategy,
         .choices = STRATEGIES,
         .help = "ring (default): keys and values go round; allgather: every rank gathers all of\n"
                 "them; broadcast: the same bits for any R"},
        {.name = "transport",
         .kind = ARG_CHOICE,
         .metavar = "NAME",
         .target = &args->transport,
         .choices = TRANSPORTS,
         .help = "sim (default): virtual ranks, one after the other; threads; mpi: the processes\n"
                 "that mpirun has started"},
        {.name = "order",
         .kind = ARG_CHOICE,
         .metavar = "NAME",
         .target = &args->order,
         .choices = ORDERS,
         .help = "which rank holds what: contiguous (default), zigzag or striped"},
        {.name = "memory",
         .kind = ARG_BYTES,
         .metavar = "BYTES",
         .target = &args->memory,
         .min = 1,
         .max = INT64_MAX,
         .help = "what a process may hold, such as 512MiB; without --ring the smallest ring that\n"
                 "fits is taken"},
        {.name = "timeout",
         .kind = ARG_REAL,
         .metavar = "SECONDS",
         .target = &args->timeout,
         .help = "silence of a rank after which the run is given up (default 60)"},
        {.name = "threads",
         .kind = ARG_INTEGER,
         .metavar = "N",
         .target = &args->threads,
         .min = 1,
         .max = 4096,
         .help = "threads of each rank (default: the cores this process may use, divided among the\n"
                 "ranks that work at the same time)"},
        {.name = "kernel",
         .kind = ARG_CHOICE,
         .metavar = "NAME",
         .target = &args->kernel,
         .choices = KERNELS,
         .help = "generic, avx2, avx512 or avx512bf16 (default: what RA_KERNEL says, else the\n"
                 "fastest here)"},
        {.name = "precision",
         .kind = ARG_CHOICE,
         .metavar = "NAME",
         .target = &args->precision,
         .choices = PRECISIONS,
         .help = "auto (default), exact: products in float32, or fast: products of bfloat16, for\n"
                 "bfloat16 files on a processor that has them; auto is fast where all is bfloat16"},
        {.name = "tiles",
         .kind = ARG_CHOICE,
         .metavar = "NAME",
         .target = &args->tiles,
         .choices = TILES,
         .help = "the order in which tiles are worked: row (default), serpentine or hilbert"},
    };
    memcpy(options, table, sizeof table);
}

bool ring_args_given(const ring_args *args)
{
    return args->ring || args->strategy >= 0 || args->transport >= 0 || args->order >= 0 || args->memory;
}

ra_ring_options ring_args_library(const ring_args *args, int ranks)
{
    ra_ring_options ring = RA_RING_OPTIONS_INIT;
    ring.ranks = ranks;
    ring.strategy = args->strategy < 0 ? RA_STRATEGY_RING : (ra_strategy)args->strategy;
    ring.transport = args->transport < 0 ? RA_TRANSPORT_SIM : (ra_transport_kind)args->transport;
    ring.order = args->order < 0 ? RA_ORDER_CONTIGUOUS : (ra_order)args->order;
    ring.memory = args->memory;
    ring.timeout = args->timeout;
    ring.lent = 0;
    return ring;
}

ra_options ring_args_run(const ring_args *args)
{
    static const ra_kernel_id KERNEL_IDS[] = {RA_KERNEL_GENERIC, RA_KERNEL_AVX2, RA_KERNEL_AVX512,
                                              RA_KERNEL_AVX512BF16};
    ra_options options = RA_OPTIONS_INIT;
    options.threads = (int)args->threads;
    options.tiles = (ra_tile_order)args->tiles;
    options.precision = (ra_precision)args->precision;
    options.kernel = args->kernel < 0 ? RA_KERNEL_AUTO : KERNEL_IDS[args->kernel];
    return options;
}

int ring_args_check(const ring_args *args, int processes, int *ranks)
{
    *ranks = (int)args->ring;
    if (args->timeout <= 0)
        return report(EXIT_USAGE, "--timeout %g: expected more than 0 seconds", args->timeout);
    if (args->transport == RA_TRANSPORT_MPI) {
        *ranks = processes;
        if (args->ring && args->ring != processes)
            return report(EXIT_USAGE,
                          "--ring %lld: with --transport mpi the ring is the %d process%s that mpirun has started: "
                          "start it with mpirun -n %lld, or leave --ring out",
                          (long long)args->ring, processes, processes == 1 ? "" : "es", (long long)args->ring);
        return EXIT_OK;
    }
    if (ring_args_given(args) && !args->ring && !args->memory)
        return report(EXIT_USAGE, "--%s needs --ring R, the number of ranks",
                      args->strategy >= 0    ? "strategy"
                      : args->transport >= 0 ? "transport"
                                             : "order");
    return EXIT_OK;
}
