/* SPDX-License-Identifier: Apache-2.0 */
/* The table of published figures. No function here measures. See published.h. */
#include "published.h"

#include <stddef.h>

/* All of them are reports in one public repository; numbers only. */
#define REPOSITORY "DarcStar-Solutions-Tech/dilated-attention-pytorch: "
#define CARD "NVIDIA GTX 1080 (8 GiB)"
#define MIB(x) ((x)*1048576.0)

#define RING_FILE REPOSITORY "docs/benchmarks/by-type/ring-attention-v2/2025-06-27-1933-UTC"
#define RING_INCLUDES "forward alone, no projections; emptying the allocator's cache at every chunk is inside the time"
#define RING_WRONG                                                                                                     \
    "no ring: a loop over chunks on one card that holds all queries; two timed runs, up to 64% apart; half precision " \
    "sums; memory without Q, K and V"

/* A ring of `ranks` on one card; milliseconds and MiB. */
#define RING(length, ranks, milliseconds, mib)                                                                         \
    {                                                                                                                  \
        "B1 H8 D64 " #length " R" #ranks, 1, length, 8, 64, "full", ranks,                                             \
        {                                                                                                              \
            RING_FILE, CARD, "float16", (milliseconds) / 1e3, length, MIB(mib), RING_INCLUDES, RING_WRONG              \
        }                                                                                                              \
    }

#define DENSE_FILE REPOSITORY "data/benchmarks/benchmark_results_20250707_105654.json"
#define DENSE(length, milliseconds, mib, wrong)                                                                        \
    {                                                                                                                  \
        "B2 H8 D64 " #length, 2, length, 8, 64, "full", 1,                                                             \
        {                                                                                                              \
            DENSE_FILE, CARD, "float16", (milliseconds) / 1e3, 2L * (length), MIB(mib),                                \
                "forward alone, no projections", wrong                                                                 \
        }                                                                                                              \
    }

#define DILATED_FILE REPOSITORY "data/benchmarks/all_implementations_fp32_2025-07-06-2315-UTC.json"
#define DILATED(length, pattern, milliseconds, mib)                                                                    \
    {                                                                                                                  \
        "B2 H8 D64 " #length " dilated", 2, length, 8, 64, pattern, 1,                                                 \
        {                                                                                                              \
            DILATED_FILE, CARD, "float32", (milliseconds) / 1e3, 2L * (length), MIB(mib),                              \
                "forward alone, no projections; memory with inputs",                                                   \
                "heads are divided over the branches: each sees one of them alone"                                     \
        }                                                                                                              \
    }

#define H12_FILE REPOSITORY "benchmarks/ring_attention_comparison.md"
#define H12_PATTERN "dilated:2048/1,4096/2+causal"
#define H12_WRONG                                                                                                      \
    "every rank computed the whole sequence: memory is the same for 1 and 2 cards, and two are slower than one"
#define H12(length, ranks, milliseconds, mib)                                                                          \
    {                                                                                                                  \
        "B1 H12 D64 " #length " dilated R" #ranks, 1, length, 12, 64, H12_PATTERN, ranks,                              \
        {                                                                                                              \
            H12_FILE, CARD, "float32", (milliseconds) / 1e3, length, MIB(mib),                                         \
                "the projections of Q, K, V and the output, which ours has in bench layer alone; memory with weights " \
                "and inputs",                                                                                          \
                H12_WRONG                                                                                              \
        }                                                                                                              \
    }

const published_case published_cases[] = {
    RING(4096, 1, 127.38, 772.25),
    RING(4096, 2, 212.24, 388.25),
    RING(4096, 4, 111.69, 196.25),
    RING(4096, 8, 588.92, 100.25),
    RING(4096, 16, 150.10, 52.25),
    RING(8192, 1, 0, 0), /* out of memory there */
    RING(8192, 2, 711.73, 1544.5),
    RING(8192, 4, 907.19, 776.5),
    RING(8192, 8, 809.56, 392.5),
    RING(8192, 16, 1224.60, 200.5),
    DENSE(1024, 0, 0, "no figure for this batch size was found"),
    DENSE(2048, 0, 0, "no figure for this batch size was found"),
    DENSE(4096, 233.86, 1056, "five runs, 77% apart; scores of all heads are kept"),
    DILATED(1024, "dilated:256/1,512/2", 1.337, 61.2),
    DILATED(2048, "dilated:512/1,1024/2", 2.273, 98.2),
    DILATED(4096, "dilated:1024/1,2048/2", 5.216, 178.2),
    {"B1 H8 D64 8192 dilated",
     1,
     8192,
     8,
     64,
     "dilated:512/1,1024/2,2048/4",
     1,
     {REPOSITORY "docs/benchmarks/by-type/fixed-ring-attention-comprehensive/2025-06-27-1846-UTC", CARD, "float16",
      67.89e-3, 8192, 0.0553 * 1073741824.0, "forward alone, no projections; memory with inputs",
      "the ring variants beside it ran with ring size 1 whatever was asked for; one of them, at 0.9 ms, attended over "
      "heads instead of tokens"}},
    H12(4096, 1, 11.80, 122.2),
    H12(4096, 2, 11.83, 122.2),
    H12(8192, 1, 73.94, 227.2),
    H12(8192, 2, 211.49, 227.2),
    H12(16384, 1, 274.21, 437.2),
    H12(16384, 2, 479.58, 437.2),
    H12(32768, 1, 888.83, 857.2),
    H12(32768, 2, 1826.48, 857.2),
};
const int published_count = sizeof published_cases / sizeof *published_cases;
