/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cache misses: counters of the processor through perf_event_open, or the summary that valgrind's cache model writes.
 * See cache_misses.h.
 */
#include "cache_misses.h"

#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- Counters ---------------------------------------------------------------------------------------------------- */

static int open_counter(uint64_t cache)
{
    struct perf_event_attr event;
    memset(&event, 0, sizeof event);
    event.size = sizeof event;
    event.type = PERF_TYPE_HW_CACHE;
    event.config = cache | (uint64_t)PERF_COUNT_HW_CACHE_OP_READ << 8 | (uint64_t)PERF_COUNT_HW_CACHE_RESULT_MISS << 16;
    event.disabled = 1;
    event.inherit = 1; /* threads that are made later count too */
    event.exclude_kernel = 1;
    event.exclude_hv = 1;
    return (int)syscall(SYS_perf_event_open, &event, 0, -1, -1, 0);
}

bool cache_counters_open(cache_counters *c)
{
    c->first_level = open_counter(PERF_COUNT_HW_CACHE_L1D);
    c->last_level = open_counter(PERF_COUNT_HW_CACHE_LL);
    if (c->first_level >= 0 && c->last_level >= 0)
        return true;
    cache_counters_close(c);
    return false;
}

void cache_counters_start(const cache_counters *c)
{
    const int counters[] = {c->first_level, c->last_level};
    for (int i = 0; i < 2; i++) {
        ioctl(counters[i], PERF_EVENT_IOC_RESET, 0);
        ioctl(counters[i], PERF_EVENT_IOC_ENABLE, 0);
    }
}

bool cache_counters_stop(const cache_counters *c, cache_misses *misses)
{
    ioctl(c->first_level, PERF_EVENT_IOC_DISABLE, 0);
    ioctl(c->last_level, PERF_EVENT_IOC_DISABLE, 0);
    return read(c->first_level, &misses->first_level, sizeof misses->first_level) ==
               (ssize_t)sizeof misses->first_level &&
           read(c->last_level, &misses->last_level, sizeof misses->last_level) == (ssize_t)sizeof misses->last_level;
}

void cache_counters_close(cache_counters *c)
{
    if (c->first_level >= 0)
        close(c->first_level);
    if (c->last_level >= 0)
        close(c->last_level);
    *c = (cache_counters){-1, -1};
}

/* ---- Model ------------------------------------------------------------------------------------------------------- */

/* A number with commas after the colon of a line of valgrind's summary, such as "==1== D1  misses:   12,345 (". */
static bool number_after_colon(const char *line, int64_t *number)
{
    const char *at = strchr(line, ':');
    int64_t value = 0;
    int digits = 0;
    while (at && (*++at == ' '))
        ;
    for (; at && ((*at >= '0' && *at <= '9') || *at == ','); at++)
        if (*at != ',') {
            value = 10 * value + (*at - '0');
            digits++;
        }
    *number = value;
    return digits > 0;
}

static bool read_summary(const char *path, cache_misses *misses)
{
    char line[512];
    bool first = false, last = false;
    FILE *log = fopen(path, "r");
    while (log && fgets(line, sizeof line, log)) {
        const char *text = strstr(line, "== ");
        if (text && strncmp(text, "== D1  misses:", 14) == 0)
            first = number_after_colon(text, &misses->first_level);
        if (text && strncmp(text, "== LLd misses:", 14) == 0)
            last = number_after_colon(text, &misses->last_level);
    }
    if (log)
        fclose(log);
    return first && last;
}

bool cache_model_run(const launch *self, const char *const *arguments, cache_misses *misses, char why[256])
{
    char log[] = "/tmp/ringattn-cachegrind-XXXXXX", option[64];
    int file = mkstemp(log);
    if (file < 0) {
        snprintf(why, 256, "no temporary file in /tmp");
        return false;
    }
    close(file);
    snprintf(option, sizeof option, "--log-file=%s", log);
    const char *const emulator[] = {
        "valgrind", "--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null", option, NULL};
    int code = launch_under(self, emulator, arguments);
    bool counted = code == 0 && read_summary(log, misses);
    unlink(log);
    if (!counted)
        snprintf(why, 256, code == 127 ? "valgrind is not installed" : "valgrind ended with %d and no summary", code);
    return counted;
}
