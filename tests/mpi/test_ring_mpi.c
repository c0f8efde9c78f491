/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rings over the processes that this program was started with, against the oracle: the same made-up tensors in every
 * process, each with its own rows of them; what comes out is gathered by the first. Prints what fails, and a count.
 */
#include "compare.h"
#include "ringattn/mpi.h"
#include "support/sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTHS = 4, PATTERNS = 7, STRATEGIES = 3, ORDERS = 3, ORACLE_ROWS = 24 };

static const int64_t lengths[LENGTHS] = {1, 31, 257, 1000};
static const char *const patterns[PATTERNS] = {
    "full",        "causal", "window:40,7", "documents", "dilated:48/1,300/3+causal", "blocks:32:local=1:random=1",
    "window:0,400"};

static struct {
    int rank, ranks;
    ra_comm *comm;
} self;

typedef struct ring_test {
    sample s;
    ra_ring_plan *plan;
    ra_ring_options options;
    ra_tensor parts[SAMPLE_TENSORS];
    void *memory[SAMPLE_TENSORS];
    ra_rank_stats *stats;
    char name[512], failure[1024];
} ring_test;

static bool fail(ring_test *t, const char *why)
{
    if (!t->failure[0])
        snprintf(t->failure, sizeof t->failure, "rank %d: %s: %s", self.rank, t->name, why);
    return false;
}

/* ---- The problem ------------------------------------------------------------------------------------------------ */

/* "documents" means a few of them that fit the length. */
static const char *pattern_for(int pattern, int64_t length, char *text, size_t size)
{
    if (strcmp(patterns[pattern], "documents") != 0)
        return patterns[pattern];
    if (length < 3)
        snprintf(text, size, "documents:%lld", (long long)length);
    else
        snprintf(text, size, "documents:%lld,%lld,%lld", (long long)(length / 3), (long long)(length / 2),
                 (long long)(length - length / 3 - length / 2));
    return text;
}

/* A tensor of the sample, in float16. */
static void make_half(sample *s, int which)
{
    ra_tensor wide = s->tensors[which], *half = &s->tensors[which];
    void *memory = malloc(s->bytes[which] / 2);
    if (!memory)
        abort();
    *half = ra_tensor_dense(memory, RA_F16, RA_BSHD, wide.batch, wide.seq, wide.heads, wide.dim);
    for (int64_t row = 0; row < wide.batch * wide.seq * wide.heads; row++)
        for (int64_t d = 0; d < wide.dim; d++) {
            int64_t head = row % wide.heads, seq = row / wide.heads % wide.seq, batch = row / wide.heads / wide.seq;
            ra_tensor_set(half, batch, seq, head, d, ra_tensor_get(&wide, batch, seq, head, d));
        }
    free(s->memory[which]);
    s->memory[which] = memory;
    s->bytes[which] /= 2;
}

static void make_problem(ring_test *t, int pattern, int64_t length, bool half)
{
    char text[128];
    ra_problem problem = RA_PROBLEM_INIT;
    problem.batch = length < 100 ? 2 : 1;
    problem.q_len = length;
    problem.heads = 4, problem.kv_heads = 2, problem.head_dim = 16, problem.value_dim = 8;
    problem.pattern = pattern_for(pattern, length, text, sizeof text);
    sample_make(&t->s, &problem);
    for (int i = 0; i <= SAMPLE_OUTPUT && half; i++)
        make_half(&t->s, i);
}

/* ---- A rank's part ---------------------------------------------------------------------------------------------- */

static bool of_keys(int tensor)
{
    return tensor == SAMPLE_KEY || tensor == SAMPLE_VALUE;
}

/* The rows of `rank` of a tensor, dense, with nothing in it yet. */
static ra_tensor make_part(ring_test *t, int rank, int which, void **memory, size_t *bytes)
{
    const ra_tensor *whole = &t->s.tensors[which];
    ra_rank_info info = RA_RANK_INFO_INIT;
    ra_ring_plan_rank(t->plan, rank, &info);
    int64_t rows = of_keys(which) ? info.kv_rows : info.q_rows;
    *bytes = (size_t)(whole->batch * rows * whole->heads * whole->dim) * ra_dtype_size(whole->dtype);
    *memory = malloc(*bytes + 1);
    if (!*memory)
        abort();
    memset(*memory, 0xff, *bytes);
    return ra_tensor_dense(*memory, whole->dtype, RA_BSHD, whole->batch, rows, whole->heads, whole->dim);
}

static bool make_parts(ring_test *t)
{
    for (int i = 0; i < SAMPLE_TENSORS; i++) {
        size_t bytes;
        t->parts[i] = make_part(t, self.rank, i, &t->memory[i], &bytes);
        if (i <= SAMPLE_VALUE && ra_ring_split(t->plan, self.rank, of_keys(i), &t->s.tensors[i], &t->parts[i]))
            return fail(t, ra_last_message());
    }
    return true;
}

/* ---- What it says ----------------------------------------------------------------------------------------------- */

/* Each rank has every rank's statistics, and they are the same everywhere. */
static bool check_stats(ring_test *t)
{
    size_t bytes = (size_t)self.ranks * sizeof *t->stats;
    ra_rank_stats *first = malloc(bytes);
    if (!first)
        abort();
    memcpy(first, t->stats, bytes);
    MPI_Bcast(first, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    bool same = memcmp(first, t->stats, bytes) == 0;
    free(first);
    if (!same)
        return fail(t, "other statistics than rank 0");
    double pairs = 0;
    int64_t sent = 0, received = 0;
    for (int rank = 0; rank < self.ranks; rank++) {
        const ra_rank_stats *r = &t->stats[rank];
        pairs += r->pairs_visible, sent += r->bytes_sent, received += r->bytes_received;
        if (r->rank != rank || r->peak_bytes <= 0 || r->peak_bytes > r->planned_peak_bytes || r->rss_peak_bytes <= 0)
            return fail(t, "statistics of a rank");
    }
    ra_plan_info info = RA_PLAN_INFO_INIT;
    ra_plan_describe(ra_ring_plan_problem(t->plan), &info);
    return pairs == info.pairs_visible && sent == received ? true : fail(t, "sums of the statistics");
}

/* ---- What comes out --------------------------------------------------------------------------------------------- */

/* The rows of all ranks, in the sample of rank 0. */
static bool collect(ring_test *t, int which)
{
    for (int rank = 0; rank < self.ranks; rank++) {
        void *memory;
        size_t bytes;
        ra_tensor whole = t->s.tensors[which], part = make_part(t, rank, which, &memory, &bytes);
        if (rank == self.rank)
            memcpy(memory, t->memory[which], bytes);
        if (rank && self.rank == 0)
            MPI_Recv(memory, (int)bytes, MPI_BYTE, rank, which, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else if (rank && rank == self.rank)
            MPI_Send(memory, (int)bytes, MPI_BYTE, 0, which, MPI_COMM_WORLD);
        if (self.rank == 0 && ra_ring_gather(t->plan, rank, 0, &part, &whole))
            fail(t, ra_last_message());
        free(memory);
    }
    return !t->failure[0];
}

static bool check_rows(ring_test *t)
{
    choices choice = {(uint64_t)t->s.problem.q_len};
    double output_error, lse_error;
    oracle_rows expected = sample_oracle(&t->s, ORACLE_ROWS, &choice);
    sample_errors(&t->s, &expected, &output_error, &lse_error);
    oracle_free(&expected);
    return output_error <= OUTPUT_TOLERANCE && lse_error <= LSE_TOLERANCE ? true : fail(t, "far from the oracle");
}

/* Broadcast: the bits of a run in one piece. */
static bool check_bits(ring_test *t)
{
    char *kept[SAMPLE_TENSORS] = {NULL};
    bool same = true;
    for (int i = SAMPLE_OUTPUT; i < SAMPLE_TENSORS; i++) {
        kept[i] = malloc(t->s.bytes[i]);
        if (!kept[i])
            abort();
        memcpy(kept[i], t->s.memory[i], t->s.bytes[i]);
    }
    sample_run(&t->s, RA_KERNEL_AUTO, 1);
    for (int i = SAMPLE_OUTPUT; i < SAMPLE_TENSORS; i++) {
        same = same && memcmp(kept[i], t->s.memory[i], t->s.bytes[i]) == 0;
        free(kept[i]);
    }
    return same ? true : fail(t, "other bits than in one piece");
}

static bool check_result(ring_test *t)
{
    sample_wipe(&t->s);
    bool good = collect(t, SAMPLE_OUTPUT);
    good = collect(t, SAMPLE_LSE) && good;
    if (self.rank || !good)
        return good;
    /* The branches of a dilated pattern are merged at every step, and round differently. */
    bool bits = t->options.strategy == RA_STRATEGY_BROADCAST && !strstr(t->s.pattern, "dilated");
    return check_rows(t) && (!bits || check_bits(t));
}

/* ---- Runs ------------------------------------------------------------------------------------------------------- */

static bool all_good(bool mine)
{
    int good = mine, all = 0;
    MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all;
}

static bool make_plan(ring_test *t)
{
    ra_options run = RA_OPTIONS_INIT;
    run.threads = 1;
    t->options.q_dtype = t->s.tensors[SAMPLE_QUERY].dtype;
    t->options.k_dtype = t->s.tensors[SAMPLE_KEY].dtype;
    t->options.v_dtype = t->s.tensors[SAMPLE_VALUE].dtype;
    if (ra_ring_plan_create(&t->s.problem, &run, &t->options, &t->plan))
        return fail(t, ra_last_message());
    /* In a byte less, where that is possible: some rows then travel late. */
    ra_ring_plan *less;
    t->options.memory = ra_ring_plan_process_bytes(t->plan) - 1;
    if (!ra_ring_plan_create(&t->s.problem, &run, &t->options, &less)) {
        ra_ring_plan_free(t->plan);
        t->plan = less;
    }
    return make_parts(t);
}

static bool forward(ring_test *t)
{
    const ra_tensor *p = t->parts;
    ra_status status = ra_ring_forward(t->plan, self.comm, &p[SAMPLE_QUERY], &p[SAMPLE_KEY], &p[SAMPLE_VALUE],
                                       &p[SAMPLE_OUTPUT], &p[SAMPLE_LSE], t->stats);
    return status ? fail(t, ra_last_message()) : true;
}

/* Every step is left by all ranks together. */
static bool run(ring_test *t)
{
    return all_good(make_plan(t)) && all_good(forward(t)) && all_good(check_stats(t)) && all_good(check_result(t));
}

static bool run_case(int pattern, int64_t length, ra_strategy strategy, ra_order order, bool half)
{
    ring_test t = {.options = RA_RING_OPTIONS_INIT, .stats = calloc((size_t)self.ranks, sizeof *t.stats)};
    if (!t.stats)
        abort();
    t.stats[0].size = sizeof *t.stats;
    t.options.ranks = self.ranks;
    t.options.strategy = strategy;
    t.options.order = order;
    t.options.transport = RA_TRANSPORT_MPI;
    make_problem(&t, pattern, length, half);
    snprintf(t.name, sizeof t.name, "%d ranks, %s, %s%s; %s", self.ranks, ra_strategy_name(strategy),
             ra_order_name(order), half ? ", float16" : "", sample_text(&t.s));
    bool good = run(&t);
    if (t.failure[0])
        printf("%s\n", t.failure);
    for (int i = 0; i < SAMPLE_TENSORS; i++)
        free(t.memory[i]);
    ra_ring_plan_free(t.plan);
    free(t.stats);
    sample_free(&t.s);
    return good;
}

/* All patterns, lengths and strategies; orders and dtypes in turn, so that each meets each. */
static void run_cases(int *played, int *bad)
{
    for (int pattern = 0; pattern < PATTERNS; pattern++)
        for (int length = 0; length < LENGTHS; length++)
            for (int strategy = 0; strategy < STRATEGIES && !*bad; strategy++) {
                int order = (pattern + length + strategy) % ORDERS;
                *bad += !run_case(pattern, lengths[length], (ra_strategy)strategy, (ra_order)order,
                                  (pattern + length / 2 + strategy) % 2);
                ++*played;
            }
}

/* ---- Failures ---------------------------------------------------------------------------------------------------- */

typedef struct trouble {
    const char *name;
    double scale; /* of the last rank */
    bool absent;  /* the last rank does not come */
    ra_status status;
    const char *words;
} trouble;

/* What the ranks that come must find, and that they find it once only. */
static bool fails_as_it_should(ring_test *t, const trouble *expected)
{
    ra_ring_options *o = &t->options;
    char odd[32];
    o->timeout = 0.5;
    if (self.rank == self.ranks - 1)
        t->s.problem.scale = expected->scale;
    if (!make_plan(t))
        return false;
    if (expected->absent && self.rank == self.ranks - 1)
        return true;
    const ra_tensor *p = t->parts;
    for (int i = 0; i < 2; i++) {
        ra_status status = ra_ring_forward(t->plan, self.comm, &p[SAMPLE_QUERY], &p[SAMPLE_KEY], &p[SAMPLE_VALUE],
                                           &p[SAMPLE_OUTPUT], &p[SAMPLE_LSE], NULL);
        snprintf(odd, sizeof odd, "rank %d", self.ranks - 1);
        if (i == 1)
            return status == RA_ERROR_ARGUMENT ? true : fail(t, "a broken communicator was used");
        if (status != expected->status && (expected->status == RA_ERROR_ARGUMENT || status != RA_ERROR_PEER))
            return fail(t, ra_status_name(status));
        if (!strstr(ra_last_message(), expected->words) || !strstr(ra_last_message(), odd))
            return fail(t, ra_last_message());
    }
    return true;
}

/* A failure is a status: the program and its MPI go on, with another communicator. */
static bool run_trouble(const trouble *expected)
{
    ring_test t = {.options = RA_RING_OPTIONS_INIT};
    t.options.ranks = self.ranks;
    t.options.transport = RA_TRANSPORT_MPI;
    snprintf(t.name, sizeof t.name, "%d ranks, %s", self.ranks, expected->name);
    if (ra_comm_mpi(MPI_COMM_WORLD, &self.comm)) {
        printf("%s\n", ra_last_message());
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    make_problem(&t, 0, 400, false);
    bool good = all_good(fails_as_it_should(&t, expected));
    if (t.failure[0])
        printf("%s\n", t.failure);
    ra_comm_free(self.comm);
    for (int i = 0; i < SAMPLE_TENSORS; i++)
        free(t.memory[i]);
    ra_ring_plan_free(t.plan);
    sample_free(&t.s);
    return good;
}

static void run_troubles(int *played, int *bad)
{
    static const trouble troubles[] = {
        {"a rank with another scale", 0.5, false, RA_ERROR_ARGUMENT, "scale: 0.5"},
        {"a rank that does not come", RA_SCALE_DEFAULT, true, RA_ERROR_TIMEOUT, "has been silent for"}};
    for (size_t i = 0; i < sizeof troubles / sizeof *troubles && self.ranks > 1; i++) {
        *bad += !run_trouble(&troubles[i]);
        ++*played;
    }
}

int main(int argc, char **argv)
{
    int provided, played = 0, bad = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &self.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &self.ranks);
    if (ra_mpi_check_launcher() || ra_comm_mpi(MPI_COMM_WORLD, &self.comm)) {
        printf("%s\n", ra_last_message());
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    run_cases(&played, &bad);
    ra_comm_free(self.comm);
    run_troubles(&played, &bad);
    if (self.rank == 0)
        printf("%d processes: %d rings, %d failed\n", self.ranks, played, bad);
    MPI_Finalize();
    return bad > 0;
}
