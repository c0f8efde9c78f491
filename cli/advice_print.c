/* SPDX-License-Identifier: Apache-2.0 */
/* Prints an advice as a table, as JSON and as a command. Which choice is best: advice.c. See advice_print.h. */
#include "advice_print.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* Print a word, quoted for a shell. */
static void put_word(FILE *to, const char *word)
{
    static const char PLAIN[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:,+./=@_#%-";
    if (word[strspn(word, PLAIN)] == 0) {
        fputs(word, to);
        return;
    }
    fputc('\'', to);
    for (; *word; word++)
        fputs(*word == '\'' ? "'\\''" : (char[]){*word, 0}, to);
    fputc('\'', to);
}

char *advice_command(const advice *a)
{
    const advice_choice *c = &a->choices[a->best];
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    if (!to)
        return NULL;
    bool mpi = a->ring.transport == RA_TRANSPORT_MPI;
    if (mpi)
        fprintf(to, "mpirun -n %d ", c->ranks);
    fprintf(to, "ringattn %s --query q.npy --key k.npy --value v.npy --output o.npy",
            a->ring.backward ? "gradient" : "attend");
    if (a->ring.backward)
        fputs(" --lse lse.npy --output-gradient do.npy --query-gradient dq.npy --key-gradient dk.npy"
              " --value-gradient dv.npy",
              to);
    fputs(" --pattern ", to);
    put_word(to, a->problem.pattern);
    if (a->problem.scores) {
        fputs(" --scores ", to);
        put_word(to, a->problem.scores);
    }
    if (a->problem.query_position != RA_SAME)
        fprintf(to, " --query-position %lld", (long long)a->problem.query_position);
    if (a->problem.key_position)
        fprintf(to, " --key-position %lld", (long long)a->problem.key_position);
    if (!c->local) {
        if (!mpi)
            fprintf(to, " --ring %d", c->ranks);
        fprintf(to, " --strategy %s --order %s --transport %s --memory %lld", ra_strategy_name(c->strategy),
                ra_order_name(c->order), ra_transport_name(a->ring.transport), (long long)a->ring.memory);
    }
    /* Elsewhere the default may be another number of threads, which need more memory. */
    if (a->options.threads || mpi)
        fprintf(to, " --threads %d", a->options.threads ? a->options.threads : c->work.threads);
    if (a->options.kernel != RA_KERNEL_AUTO)
        fprintf(to, " --kernel %s", ra_kernel_name(a->options.kernel));
    return fclose(to) == 0 ? text : NULL;
}

static const char *strategy_of(const advice_choice *c)
{
    return c->local ? "local" : ra_strategy_name(c->strategy);
}

static void say_why(const advice *a, int index, char reason[ADVICE_REASON])
{
    if (index == a->best)
        snprintf(reason, ADVICE_REASON, "taken");
    else
        advice_reason(&a->choices[index], &a->choices[a->best], a->ring.memory, reason);
}

void advice_print(const advice *a, const char *command)
{
    const advice_choice *best = &a->choices[a->best];
    const ra_problem *p = &a->problem;
    char text[RA_BYTES_TEXT];
    printf("%s%s%s%s, length %lld, %lld heads, head dim %lld, %s; a process may hold %s\n",
           a->ring.backward ? "gradients of " : "", p->pattern, p->scores ? ", scores " : "",
           p->scores ? p->scores : "", (long long)p->q_len, (long long)p->heads, (long long)p->head_dim,
           ra_dtype_name(a->ring.q_dtype), ra_bytes_text(a->ring.memory, text));
    printf("calibrated in %.1f s: %d threads", a->calibrated, a->model.threads);
    if (a->model.pair[MODEL_PLAIN] > 0) /* in a tiny problem the time of pairs cannot be told from that of rows */
        printf(", %.0f GFLOP/s on tiles without gaps", 2e-9 * a->model.threads / a->model.pair[MODEL_PLAIN]);
    printf("\n\n");
    if (best->local)
        printf("in one piece: %.3g s, %s\n", best->time.seconds, ra_bytes_text(best->bytes, text));
    else
        printf("%s over %d ranks (%s, %d thread%s each), order %s, chunks of %lld rows: %.3g s, %s\n",
               ra_strategy_name(best->strategy), best->ranks, ra_transport_name(a->ring.transport), best->work.threads,
               best->work.threads == 1 ? "" : "s", ra_order_name(best->order), (long long)best->chunk,
               best->time.seconds, ra_bytes_text(best->bytes, text));
    printf("$ %s\n\n", command);
    printf("%-10s %-11s %5s %11s %9s %11s fits\n", "strategy", "order", "ranks", "chunk", "seconds", "memory");
    for (int i = 0; i < a->count; i++) {
        const advice_choice *c = &a->choices[i];
        char reason[ADVICE_REASON];
        say_why(a, i, reason);
        printf("%-10s %-11s %5d %11lld %9.*f %11s %-4s  %s\n", strategy_of(c), ra_order_name(c->order), c->ranks,
               (long long)c->chunk, c->time.seconds < 100 ? 3 : 0, c->time.seconds, ra_bytes_text(c->bytes, text),
               c->bytes <= a->ring.memory ? "yes" : "no", reason);
    }
    if (a->left_out)
        printf("not looked at, because planning takes long: %d more\n", a->left_out);
}

static json_t *choice_json(const advice *a, int index)
{
    const advice_choice *c = &a->choices[index];
    char reason[ADVICE_REASON];
    say_why(a, index, reason);
    return json_pack("{s:s, s:s, s:s, s:i, s:I, s:f, s:I, s:b, s:s}", "strategy", strategy_of(c), "transport",
                     c->local ? "none" : ra_transport_name(a->ring.transport), "order", ra_order_name(c->order),
                     "ring_size", c->ranks, "chunk_rows", (json_int_t)c->chunk, "predicted_seconds", c->time.seconds,
                     "planned_bytes", (json_int_t)c->bytes, "fits", c->bytes <= a->ring.memory, "reason", reason);
}

int advice_print_json(const advice *a, const char *command)
{
    json_t *choices = json_array();
    for (int i = 0; i < a->count; i++)
        json_array_append_new(choices, choice_json(a, i));
    json_t *root = json_pack("{s:s, s:s, s:o, s:s, s:s?, s:I, s:f, s:i, s:o, s:i}", "direction",
                             a->ring.backward ? "backward" : "forward", "command", command, "taken",
                             choice_json(a, a->best), "pattern", a->problem.pattern, "scores", a->problem.scores,
                             "memory", (json_int_t)a->ring.memory, "calibration_seconds", a->calibrated, "threads",
                             a->model.threads, "choices", choices, "left_out", a->left_out);
    int failed = !root || json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) || putchar('\n') < 0;
    json_decref(root);
    return failed ? -1 : 0;
}
