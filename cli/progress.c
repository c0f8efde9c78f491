#include "progress.h"

#include "interrupt.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BAR_CELLS = 24 };
static const double SECONDS_BETWEEN = 0.1;

double progress_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void progress_start(progress *bar, const char *label, const char *unit, double unit_size)
{
    double now = progress_clock();
    *bar = (progress){label, unit, unit_size, isatty(STDERR_FILENO), now, now};
}

static void draw(progress *bar, double done, double total, double now)
{
    char cells[BAR_CELLS + 1];
    double fraction = total > 0 ? done / total : 1, elapsed = now - bar->started;
    int full = (int)(fraction * BAR_CELLS), left = (int)(elapsed / fraction - elapsed + 0.5);
    memset(cells, '#', BAR_CELLS);
    memset(cells + full, '.', (size_t)(BAR_CELLS - full));
    cells[BAR_CELLS] = 0;
    fprintf(stderr, "\r%s [%s] %3.0f%%  %.1f %s  %d:%02d left \033[K", bar->label, cells, 100 * fraction,
            done * bar->unit_size / elapsed, bar->unit, left / 60, left % 60);
    fflush(stderr);
}

int progress_step(void *user, double done, double total)
{
    progress *bar = user;
    double now = bar->shown ? progress_clock() : 0;
    if (bar->shown && done > 0 && done <= total && now - bar->drawn >= SECONDS_BETWEEN) {
        bar->drawn = now;
        draw(bar, done, total, now);
    }
    return interrupted();
}

void progress_end(progress *bar)
{
    if (bar->shown && bar->drawn > bar->started)
        fputs("\r\033[K", stderr);
}
