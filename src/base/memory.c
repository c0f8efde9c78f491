#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>

enum { LINE = 64 };

int64_t ra_memory_rounded(int64_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

ra_status ra_memory_take(ra_accountant *accountant, int64_t bytes, const char *what, void **block)
{
    int64_t rounded = ra_memory_rounded(bytes);
    *block = aligned_alloc(LINE, (size_t)rounded);
    if (!*block)
        return ra_fail(RA_ERROR_MEMORY, "out of memory: %lld bytes for %s", (long long)rounded, what);
    accountant->bytes += rounded;
    if (accountant->bytes > accountant->peak)
        accountant->peak = accountant->bytes;
    return RA_OK;
}

void ra_memory_give(ra_accountant *accountant, void *block, int64_t bytes)
{
    if (!block)
        return;
    accountant->bytes -= ra_memory_rounded(bytes);
    free(block);
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
