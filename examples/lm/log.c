/* SPDX-License-Identifier: Apache-2.0 */
/* The log, a JSON line a step, and the progress on a terminal. */
#include "lm.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *lm_log_open(lm_log *log, const char *path, int64_t length)
{
    static char why[512];
    struct stat status;
    *log = (lm_log){.path = path, .file = -1};
    if (!path)
        return NULL;
    log->file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (log->file < 0 || fstat(log->file, &status) != 0) {
        snprintf(why, sizeof why, "--log '%s': cannot be opened: %s", path, strerror(errno));
        return why;
    }
    if (status.st_size < length && status.st_size > 0) {
        snprintf(why, sizeof why,
                 "--log '%s': has %lld bytes, and had %lld when the checkpoint was saved: give the log of that "
                 "training, or another name",
                 path, (long long)status.st_size, (long long)length);
        return why;
    }
    log->length = status.st_size < length ? status.st_size : length;
    if (ftruncate(log->file, log->length) == 0)
        return NULL;
    snprintf(why, sizeof why, "--log '%s': cannot be written: %s", path, strerror(errno));
    return why;
}

/* All of the pending lines, or none: what was written of them is taken back. */
static bool write_pending(lm_log *log)
{
    size_t done = 0;
    while (done < log->pending_size) {
        ssize_t put = pwrite(log->file, log->pending + done, log->pending_size - done, log->length + (int64_t)done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0) {
            int wrong = errno;
            if (ftruncate(log->file, log->length) == 0)
                errno = wrong;
            return false;
        }
        done += (size_t)put;
    }
    log->length += (int64_t)done;
    log->pending_size = 0;
    return true;
}

void lm_log_text(lm_log *log, const char *text)
{
    size_t more = strlen(text);
    if (log->file < 0)
        return;
    char *all = realloc(log->pending, log->pending_size + more + 1);
    if (!all)
        return;
    memcpy(all + log->pending_size, text, more + 1);
    log->pending = all, log->pending_size += more;
    bool good = write_pending(log);
    if (!good && !log->failed)
        fprintf(stderr, "lm: --log '%s': cannot be written: %s; training goes on, and the lines are tried again\n",
                log->path, strerror(errno));
    log->failed = !good;
}

/* A number as JSON has it: not every float is one. */
static void print_number(FILE *out, const char *name, double value)
{
    if (isfinite(value))
        fprintf(out, "\"%s\":%.9g", name, value);
    else
        fprintf(out, "\"%s\":null", name);
}

void lm_log_step(lm_log *log, const lm_step_line *l, const lm_rank_line *ranks, int count)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return;
    fprintf(out, "{\"step\":%lld,\"tokens\":%lld,", (long long)l->step, (long long)l->tokens);
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"loss", l->loss},
                   {"bits_per_byte", l->loss / LM_LN2},
                   {"gradient_norm", l->gradient_norm},
                   {"rate", l->rate},
                   {"tokens_per_second", (double)l->step_tokens / l->seconds}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        print_number(out, numbers[i].name, numbers[i].value);
        fputc(',', out);
    }
    fprintf(out, "\"ranks\":[");
    for (int i = 0; i < count; i++)
        fprintf(out,
                "%s{\"rank\":%d,\"seconds\":{\"compute\":%.6f,\"wait\":%.6f,\"communication\":%.6f},"
                "\"bytes_sent\":%lld,\"planned_peak_bytes\":%lld,\"peak_bytes\":%lld}",
                i ? "," : "", i, ranks[i].compute, ranks[i].wait, ranks[i].communication,
                (long long)ranks[i].bytes_sent, (long long)ranks[i].planned_bytes, (long long)ranks[i].peak_bytes);
    fprintf(out, "]}\n");
    fclose(out);
    lm_log_text(log, text);
    free(text);
}

void lm_log_sync(lm_log *log)
{
    if (log->file >= 0)
        fsync(log->file);
}

void lm_log_close(lm_log *log)
{
    if (log->file >= 0)
        close(log->file);
    free(log->pending);
}

void lm_show_progress(const lm_step_line *l, int64_t steps, double left)
{
    long long s = (long long)(left + 0.5);
    fprintf(stderr, "\rlm: step %lld/%lld  %.4f bits a byte  %.0f tokens/s  %lld:%02lld:%02lld left  ",
            (long long)l->step, (long long)steps, l->loss / LM_LN2, (double)l->step_tokens / l->seconds, s / 3600,
            s / 60 % 60, s % 60);
    if (l->step == steps)
        fputc('\n', stderr);
}
