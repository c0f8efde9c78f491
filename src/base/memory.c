/* SPDX-License-Identifier: Apache-2.0 */
/* Takes and gives blocks of memory through an accountant: large ones are mapped, small ones allocated. See memory.h. */
#define _GNU_SOURCE /* mremap */
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * Large blocks are mapped, so that giving them back gives them back to the system: an allocator may keep them for
 * later, and the process would hold more than was accounted. Large pages spare much of finding rows that lie far apart,
 * and most of what a page costs that is new to the process.
 */
enum { LINE = 64, LARGE = 1 << 20, LARGE_PAGE = 2 << 20 };

int64_t ra_memory_rounded(int64_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

int64_t ra_memory_pages(int64_t bytes)
{
    enum { PAGE = 4096 };
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

static void *map_anywhere(int64_t bytes)
{
    void *block = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return block == MAP_FAILED ? NULL : block;
}

/* Begins with a large page: more than enough is mapped, and what is too much given back. */
static void *map_aligned(int64_t bytes)
{
    char *from = map_anywhere(bytes + LARGE_PAGE);
    if (!from)
        return NULL;
    int64_t before = -(int64_t)((uintptr_t)from % LARGE_PAGE) & (LARGE_PAGE - 1);
    int64_t page = sysconf(_SC_PAGESIZE), used = (before + bytes + page - 1) / page * page;
    if (before > 0)
        munmap(from, (size_t)before);
    if (bytes + LARGE_PAGE > used)
        munmap(from + used, (size_t)(bytes + LARGE_PAGE - used));
    return from + before;
}

static void *map(int64_t bytes)
{
    void *block = bytes < LARGE_PAGE ? NULL : map_aligned(bytes);
    if (!block)
        block = map_anywhere(bytes);
    if (block)
        madvise(block, (size_t)bytes, MADV_HUGEPAGE); /* no matter if refused */
    return block;
}

/*
 * Small blocks are the allocator's, aligned here: a block that aligned_alloc of the GNU C library cut out of a larger
 * one and that was given back is too small for the next of its size, and a process that computes again and again would
 * hold several. How far a block lies behind what was allocated stands before it.
 */
static void *take_small(int64_t bytes)
{
    unsigned char *from = malloc((size_t)bytes + LINE);
    if (!from)
        return NULL;
    unsigned char *block = from + LINE - (uintptr_t)from % LINE;
    block[-1] = (unsigned char)(block - from);
    return block;
}

static void give_small(void *block)
{
    unsigned char *at = block;
    free(at - at[-1]);
}

static ra_status account(ra_accountant *accountant, int64_t rounded, const char *what, const void *block)
{
    char text[RA_BYTES_TEXT];
    if (!block)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: %s for %s", ra_bytes_text(rounded, text), what);
    accountant->bytes += rounded;
    if (accountant->bytes > accountant->peak)
        accountant->peak = accountant->bytes;
    return RA_OK;
}

ra_status ra_memory_take(ra_accountant *accountant, int64_t bytes, const char *what, void **block)
{
    int64_t rounded = ra_memory_rounded(bytes);
    *block = rounded < LARGE ? take_small(rounded) : map(rounded);
    return account(accountant, rounded, what, *block);
}

static void release(void *block, int64_t rounded)
{
    if (rounded < LARGE)
        give_small(block);
    else
        munmap(block, (size_t)rounded);
}

void ra_memory_give(ra_accountant *accountant, void *block, int64_t bytes)
{
    int64_t rounded = ra_memory_rounded(bytes);
    if (!block)
        return;
    accountant->bytes -= rounded;
    release(block, rounded);
}

ra_status ra_memory_renew(ra_accountant *accountant, int64_t bytes, const char *what, void **block, int64_t had)
{
    int64_t rounded = ra_memory_rounded(bytes);
    had = ra_memory_rounded(had);
    if (*block && rounded >= LARGE && had >= LARGE) {
        void *moved = rounded == had ? *block : mremap(*block, (size_t)had, (size_t)rounded, MREMAP_MAYMOVE);
        if (moved != MAP_FAILED) {
            *block = moved;
            return account(accountant, rounded, what, moved);
        }
    }
    if (*block)
        release(*block, had);
    return ra_memory_take(accountant, bytes, what, block);
}

void ra_spare_drop(ra_spare *spare, int index)
{
    ra_accountant nobody = {0};
    ra_memory_give(&nobody, spare->block[index], spare->bytes[index]);
    spare->block[index] = NULL;
}

void ra_spare_free(ra_spare *spare)
{
    for (int i = 0; i < RA_SPARE_BLOCKS; i++)
        ra_spare_drop(spare, i);
}

int64_t ra_memory_resident_peak(void)
{
    FILE *status = fopen("/proc/self/status", "r");
    char line[128];
    long long kib = 0;
    while (status && kib == 0 && fgets(line, sizeof line, status))
        sscanf(line, "VmHWM: %lld kB", &kib);
    if (status)
        fclose(status);
    return kib * 1024;
}
