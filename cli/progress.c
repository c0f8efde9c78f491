/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the progress bar or prints its lines, and asks whether the run is to stop. See progress.h. */
#include "progress.h"

#include "interrupt.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BAR_CELLS = 24 };
static const double SECONDS_BETWEEN_BARS = 0.1, SECONDS_BETWEEN_LINES = 5;

double progress_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void progress_start(progress *bar, const char *label, const char *unit, double unit_size)
{
    double now = progress_clock();
    *bar = (progress){.label = label,
                      .unit = unit,
                      .unit_size = unit_size,
                      .shown = true,
                      .bar = isatty(STDERR_FILENO),
                      .started = now,
                      .drawn = now,
                      .skipped = -1};
}

/* Rate, time left, chunks and what was waited for. */
static void describe(const progress *bar, double done, double total, double now, char *text, size_t size)
{
    char chunks[64] = "", wait[48] = "";
    double elapsed = now - bar->started, rate = elapsed > 0 ? (done - bar->skipped) / elapsed : 0;
    long long left = rate > 0 ? (long long)((total - done) / rate + 0.5) : 0;
    if (bar->moment.chunks > 1) {
        snprintf(chunks, sizeof chunks, "chunk %lld of %lld, ", (long long)bar->moment.chunk,
                 (long long)bar->moment.chunks);
        snprintf(wait, sizeof wait, ", waited %.1f s", bar->moment.seconds_wait);
    }
    snprintf(text, size, "%3.0f%%, %s%.1f %s, %lld:%02lld left%s", total > 0 ? 100 * done / total : 100, chunks,
             rate * bar->unit_size, bar->unit, left / 60, left % 60, wait);
}

static void draw(const progress *bar, double done, double total, double now)
{
    char cells[BAR_CELLS + 1], text[256];
    int full = total > 0 ? (int)(done / total * BAR_CELLS) : BAR_CELLS;
    describe(bar, done, total, now, text, sizeof text);
    memset(cells, '#', BAR_CELLS);
    memset(cells + full, '.', (size_t)(BAR_CELLS - full));
    cells[BAR_CELLS] = 0;
    if (bar->bar)
        fprintf(stderr, "\r%s [%s] %s \033[K", bar->label, cells, text);
    else
        fprintf(stderr, "ringattn %s: %s\n", bar->label, text);
    fflush(stderr);
}

int progress_step(void *user, double done, double total)
{
    progress *bar = user;
    double now = bar->shown ? progress_clock() : 0;
    if (bar->skipped < 0)
        bar->skipped = bar->moment.chunk > 1 ? done : 0; /* a run that goes on begins in the middle */
    if (bar->shown && done > 0 && done <= total &&
        now - bar->drawn >= (bar->bar ? SECONDS_BETWEEN_BARS : SECONDS_BETWEEN_LINES)) {
        bar->drawn = now;
        draw(bar, done, total, now);
    }
    if (!bar->stops_later)
        return interrupted();
    interrupt_goes_on();
    return 0;
}

void progress_watch(void *user, const ra_ring_moment *moment)
{
    ((progress *)user)->moment = *moment;
}

void progress_end(progress *bar)
{
    if (bar->shown && bar->bar && bar->drawn > bar->started)
        fputs("\r\033[K", stderr);
}
