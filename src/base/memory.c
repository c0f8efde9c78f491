#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

/*
 * Large blocks are mapped, so that giving them back gives them back to the system: an allocator may keep them for
 * later, and the process would hold more than was accounted. Large pages spare much of finding rows that lie far apart.
 */
enum { LINE = 64, LARGE = 1 << 20 };

int64_t ra_memory_rounded(int64_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

static void *map(int64_t bytes)
{
    void *block = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED)
        return NULL;
    madvise(block, (size_t)bytes, MADV_HUGEPAGE); /* no matter if refused */
    return block;
}

ra_status ra_memory_take(ra_accountant *accountant, int64_t bytes, const char *what, void **block)
{
    int64_t rounded = ra_memory_rounded(bytes);
    *block = rounded < LARGE ? aligned_alloc(LINE, (size_t)rounded) : map(rounded);
    if (!*block)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: %lld bytes for %s", (long long)rounded, what);
    accountant->bytes += rounded;
    if (accountant->bytes > accountant->peak)
        accountant->peak = accountant->bytes;
    return RA_OK;
}

void ra_memory_give(ra_accountant *accountant, void *block, int64_t bytes)
{
    int64_t rounded = ra_memory_rounded(bytes);
    if (!block)
        return;
    accountant->bytes -= rounded;
    if (rounded < LARGE)
        free(block);
    else
        munmap(block, (size_t)rounded);
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
