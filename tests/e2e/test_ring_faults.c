/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rings in which something goes wrong: a transport that loses, cuts or delays what it is given or closes too early,
 * ranks that differ, are silent, are slow, or are told to stop. Each time a status on all ranks, and never a hang.
 */
#include "compare.h"
#include "support/faulty.h"
#include "support/ring.h"
#include "support/unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HEADS = 2, MOST_RANKS = 4, STRATEGIES = 3, HANG_SECONDS = 60, ORACLE_ROWS = 12 };

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void sleep_for(double s)
{
    struct timespec t = {(time_t)s, (long)(1e9 * (s - (double)(time_t)s))};
    nanosleep(&t, NULL);
}

/* ---- Cases ------------------------------------------------------------------------------------------------------ */

static char current[256]; /* what is running, for the one who asks why it hangs */

static void on_alarm(int number)
{
    (void)number;
    static const char words[] = "hangs: ";
    if (write(STDERR_FILENO, words, sizeof words - 1) < 0 || write(STDERR_FILENO, current, strlen(current)) < 0)
        _exit(2);
    _exit(1);
}

static ra_status run_case(const ring_case *c, const sample *s, ra_rank_stats *stats, ra_status *statuses)
{
    alarm(HANG_SECONDS);
    ra_status status = ring_case_run(c, s, stats, statuses);
    alarm(0);
    return status;
}

static void make_sample(sample *s, int64_t q_len, int64_t kv_len, const char *pattern)
{
    ra_problem problem = RA_PROBLEM_INIT;
    problem.q_len = q_len, problem.kv_len = kv_len;
    problem.heads = HEADS, problem.kv_heads = 1, problem.head_dim = 8, problem.value_dim = 4;
    problem.pattern = pattern;
    sample_make(s, &problem);
}

static void require_right(const sample *s, const oracle_rows *expected, const char *text)
{
    double output_error, lse_error;
    sample_errors(s, expected, &output_error, &lse_error);
    REQUIRE(output_error <= OUTPUT_TOLERANCE && lse_error <= LSE_TOLERANCE, "%s: output off by %.2e, lse by %.2e", text,
            output_error, lse_error);
}

/* ---- A transport that does one thing wrong ---------------------------------------------------------------------- */

static const char *const kind_names[] = {"none", "delay", "lost", "shorter", "longer", "close", "fail"};
static const double OTHER_TIMEOUT = 20;

typedef struct faulty_rank {
    int rank;
    fault what;
    bool sparing; /* memory */
} faulty_rank;

static void wrap_faulty(void *user, int rank, ra_transport *transport)
{
    const faulty_rank *f = user;
    ra_transport inner = *transport;
    if (rank == f->rank)
        assert_int_equal(faulty_wrap(&inner, &f->what, transport), RA_OK);
}

static ring_case faulty_case(way way, int ranks, ra_strategy strategy, faulty_rank *f, double timeout)
{
    ring_case c = ring_case_make(way, ranks, strategy, RA_ORDER_CONTIGUOUS);
    c.wrap = wrap_faulty;
    c.wrap_user = f;
    c.sparing = f->sparing;
    c.options.timeout = timeout;
    snprintf(current, sizeof current, "%s: %s at %lld of rank %d", ring_case_text(&c), kind_names[f->what.kind],
             (long long)f->what.at, f->rank);
    return c;
}

/* The operations of a rank: all ranks greet it, then keys and values travel, then all ranks tell it that they are done.
 */
static bool before_the_end(const fault *what, const fault_counts *clean, int ranks)
{
    bool of_sends = what->kind != FAULT_CLOSE && what->kind != FAULT_FAIL;
    int64_t last =
        of_sends ? atomic_load(&clean->sends) - (ranks - 1) : atomic_load(&clean->operations) - 2 * (ranks - 1);
    return what->at <= last;
}

static void require_failure(const ra_status *statuses, int ranks, bool all)
{
    int failed = 0;
    for (int rank = 0; rank < ranks; rank++) {
        failed += statuses[rank] != RA_OK;
        REQUIRE(statuses[rank] == RA_OK || statuses[rank] == RA_ERROR_PEER || statuses[rank] == RA_ERROR_TIMEOUT,
                "%s: rank %d has %s: %s", current, rank, ra_status_name(statuses[rank]), ring_message(rank));
        REQUIRE(statuses[rank] == RA_OK || ring_message(rank)[0], "%s: rank %d says nothing", current, rank);
    }
    REQUIRE(failed == ranks || (failed && !all), "%s: %d of %d ranks have failed", current, failed, ranks);
}

static void run_faulty(const sample *s, way way, int ranks, ra_strategy strategy, faulty_rank f,
                       const fault_counts *clean, const void *bits)
{
    fault_counts counts;
    ra_status status, statuses[MOST_RANKS];
    f.what.counts = &counts;
    /* Only what is lost is waited for: not long, unless the machine is so busy that the run ends before it is lost. */
    double timeout = f.what.kind == FAULT_LOST ? 0.005 : OTHER_TIMEOUT / 4, took;
    do {
        counts = (fault_counts){0};
        timeout *= 4;
        ring_case c = faulty_case(way, ranks, strategy, &f, timeout);
        double start = seconds();
        status = run_case(&c, s, NULL, statuses);
        took = seconds() - start;
    } while (!counts.happened && timeout < 1);
    REQUIRE(counts.happened == 1, "%s: happened %lld times", current, (long long)counts.happened);
    if (f.what.kind == FAULT_DELAY) {
        REQUIRE(status == RA_OK, "%s: %s", current, ring_message(0));
        REQUIRE(memcmp(bits, s->memory[SAMPLE_OUTPUT], s->bytes[SAMPLE_OUTPUT]) == 0, "%s: another result", current);
        return;
    }
    require_failure(statuses, ranks, before_the_end(&f.what, clean, ranks));
    REQUIRE(took < (f.what.kind == FAULT_LOST ? 2 * timeout : 0) + 5, "%s: took %.1f s", current, took);
}

/* Every kind at every operation of a rank. Lost messages take their time: those only where `lost`. */
static void every_fault_of(const sample *s, const oracle_rows *expected, way way, int ranks, ra_strategy strategy,
                           int rank, bool lost, bool sparing)
{
    fault_counts clean = {0};
    faulty_rank f = {rank, {FAULT_NONE, 0, 0, &clean}, sparing};
    ring_case c = faulty_case(way, ranks, strategy, &f, OTHER_TIMEOUT);
    REQUIRE(run_case(&c, s, NULL, NULL) == RA_OK, "%s: %s", current, ring_message(0));
    require_right(s, expected, current);
    int64_t least = 2 * (ranks - 1) + (sparing ? 1 : ranks - 1);
    REQUIRE(clean.sends >= least, "%s: %lld sends", current, (long long)clean.sends);
    size_t bytes = s->bytes[SAMPLE_OUTPUT];
    void *bits = malloc(bytes);
    assert_non_null(bits);
    memcpy(bits, s->memory[SAMPLE_OUTPUT], bytes);
    for (int kind = FAULT_DELAY; kind <= FAULT_FAIL; kind++) {
        if ((kind == FAULT_LOST && !lost) || (kind == FAULT_CLOSE && way == WAY_THREADS))
            continue; /* ranks that share memory need it until the end */
        int64_t most = kind == FAULT_CLOSE || kind == FAULT_FAIL ? clean.operations : clean.sends;
        for (int64_t at = 1; at <= most; at++)
            run_faulty(s, way, ranks, strategy, (faulty_rank){rank, {(fault_kind)kind, at, 5, NULL}, sparing}, &clean,
                       bits);
    }
    free(bits);
}

static void every_fault(void **state)
{
    way way = *(const enum way *)*state;
    bool slow = getenv("RINGATTN_SLOW");
    sample s;
    choices choice = {1};
    make_sample(&s, 300, 300, "full"); /* rows for each of four ranks */
    oracle_rows expected = sample_oracle(&s, ORACLE_ROWS, &choice);
    for (int strategy = 0; strategy < STRATEGIES; strategy++)
        for (int ranks = 2; ranks <= MOST_RANKS; ranks++)
            for (int rank = 0; rank < ranks; rank++) {
                bool chosen = rank == (int)(way + (unsigned)strategy) % ranks;
                if (slow || chosen || ranks < MOST_RANKS)
                    every_fault_of(&s, &expected, way, ranks, (ra_strategy)strategy, rank,
                                   slow || (chosen && (ranks < MOST_RANKS || way == WAY_MESSAGES)), false);
            }
    oracle_free(&expected);
    sample_free(&s);
}

/* Some of what travels begins when the rest of its phase has come. */
static void every_fault_of_late_messages(void **state)
{
    (void)state;
    sample s;
    choices choice = {1};
    make_sample(&s, 256, 256, "window:0,100");
    oracle_rows expected = sample_oracle(&s, ORACLE_ROWS, &choice);
    every_fault_of(&s, &expected, WAY_MESSAGES, 4, RA_STRATEGY_RING, 2, true, true);
    every_fault_of(&s, &expected, WAY_MESSAGES_STORED, 4, RA_STRATEGY_RING, 1, false, true);
    oracle_free(&expected);
    sample_free(&s);
}

/* ---- Ranks that differ ------------------------------------------------------------------------------------------ */

static void other_scale(ra_problem *problem, ra_options *run, ra_ring_options *options)
{
    (void)run, (void)options;
    problem->scale = 0.5;
}

static void other_pattern(ra_problem *problem, ra_options *run, ra_ring_options *options)
{
    (void)run, (void)options;
    problem->pattern = "causal";
}

static void other_documents(ra_problem *problem, ra_options *run, ra_ring_options *options)
{
    (void)run, (void)options;
    problem->pattern = "documents:50,60,40";
}

static void other_scores(ra_problem *problem, ra_options *run, ra_ring_options *options)
{
    (void)run, (void)options;
    problem->scores = "softcap:30+dropout:0.5";
}

/* The same term, with an array of other values. */
static void other_array(ra_problem *problem, ra_options *run, ra_ring_options *options)
{
    static float sinks[HEADS] = {1, 4};
    static ra_tensor view;
    static ra_score_arrays arrays = RA_SCORE_ARRAYS_INIT;
    (void)run, (void)options;
    view = ra_tensor_dense(sinks, RA_F32, RA_BSHD, 1, 1, HEADS, 1);
    arrays.sinks = &view;
    problem->score_arrays = &arrays;
}

static void other_strategy(ra_problem *problem, ra_options *run, ra_ring_options *options)
{
    (void)problem, (void)run;
    options->strategy = RA_STRATEGY_BROADCAST;
}

static void other_order(ra_problem *problem, ra_options *run, ra_ring_options *options)
{
    (void)problem, (void)run;
    options->order = RA_ORDER_ZIGZAG;
}

static void other_pieces(ra_problem *problem, ra_options *run, ra_ring_options *options)
{
    static const ra_piece pieces[] = {{0, 10, 0}, {10, 149, 1}, {149, 150, 2}};
    (void)problem, (void)run;
    options->kv_pieces = pieces;
    options->kv_piece_count = 3;
}

static void other_kernel(ra_problem *problem, ra_options *run, ra_ring_options *options)
{
    (void)problem, (void)options;
    run->kernel = RA_KERNEL_GENERIC;
}

static void other_transport(ra_problem *problem, ra_options *run, ra_ring_options *options)
{
    (void)problem, (void)run;
    options->transport = options->transport == RA_TRANSPORT_MPI ? RA_TRANSPORT_THREADS : RA_TRANSPORT_MPI;
}

static const struct {
    const char *what;
    ring_change change;
} differences[] = {{"scale: 0.5", other_scale},
                   {"pattern: causal", other_pattern},
                   {"pattern: documents of 3", other_documents},
                   {"scores: softcap:30+dropout:0.5:0", other_scores},
                   {"strategy: broadcast", other_strategy},
                   {"order: zigzag", other_order},
                   {"split of the keys: ", other_pieces},
                   {"kernel: generic", other_kernel},
                   {"transport: ", other_transport}};

/* All ranks say which rank it is, and what it has. */
static void require_named(const ring_case *c, const ra_status *statuses, const char *what)
{
    char odd[32];
    snprintf(odd, sizeof odd, "rank %d", c->odd_rank);
    for (int rank = 0; rank < c->options.ranks; rank++) {
        REQUIRE(statuses[rank] == RA_ERROR_ARGUMENT, "%s: rank %d has %s: %s", current, rank,
                ra_status_name(statuses[rank]), ring_message(rank));
        REQUIRE(strstr(ring_message(rank), odd) && strstr(ring_message(rank), what), "%s: rank %d: %s", current, rank,
                ring_message(rank));
    }
}

static void a_rank_that_differs_is_named(void **state)
{
    (void)state;
    enum { RANKS = 3 };
    static const way ways[] = {WAY_THREADS, WAY_THREADS_STORED, WAY_MESSAGES, WAY_MESSAGES_STORED};
    sample s;
    make_sample(&s, 150, 150, "documents:60,50,40");
    for (size_t i = 0; i < sizeof differences / sizeof *differences; i++)
        for (size_t j = 0; j < sizeof ways / sizeof *ways; j++)
            for (int odd = 0; odd < RANKS; odd++) {
                ra_status statuses[MOST_RANKS];
                ring_case c = ring_case_make(ways[j], RANKS, RA_STRATEGY_RING, RA_ORDER_CONTIGUOUS);
                c.odd_rank = odd;
                c.odd = differences[i].change;
                snprintf(current, sizeof current, "%s: rank %d with %s", ring_case_text(&c), odd, differences[i].what);
                if (c.odd == other_kernel && next_kernel(RA_KERNEL_GENERIC) == RA_KERNEL_AUTO)
                    continue; /* there is no other one */
                run_case(&c, &s, NULL, statuses);
                require_named(&c, statuses, differences[i].what);
            }
    sample_free(&s);
}

/* Arrays are told apart by their elements. */
static void a_rank_with_other_sinks_is_named(void **state)
{
    (void)state;
    enum { RANKS = 3 };
    float sinks[HEADS] = {1, 2};
    ra_score_arrays arrays = RA_SCORE_ARRAYS_INIT;
    sample s;
    make_sample(&s, 150, 150, "causal");
    ra_tensor view = ra_tensor_dense(sinks, RA_F32, RA_BSHD, 1, 1, HEADS, 1);
    arrays.sinks = &view;
    s.problem.scores = "sinks", s.problem.score_arrays = &arrays;
    for (int odd = 0; odd < RANKS; odd++) {
        ra_status statuses[MOST_RANKS];
        ring_case c = ring_case_make(WAY_MESSAGES, RANKS, RA_STRATEGY_RING, RA_ORDER_CONTIGUOUS);
        c.odd_rank = odd;
        c.odd = other_array;
        run_case(&c, &s, NULL, statuses);
        require_named(&c, statuses, "scores: sinks:");
    }
    sample_free(&s);
}

/* ---- Silence and slowness --------------------------------------------------------------------------------------- */

static const double SHORT_TIMEOUT = 0.5;

/* One rank says that `rank` was silent, and where; nobody succeeds. */
static void require_silent(const ring_case *c, const ra_status *statuses, int rank, const char *where)
{
    char words[64];
    int named = 0;
    snprintf(words, sizeof words, "rank %d has been silent", rank);
    for (int i = 0; i < c->options.ranks; i++) {
        if (i == rank)
            continue;
        REQUIRE(statuses[i] == RA_ERROR_TIMEOUT || statuses[i] == RA_ERROR_PEER, "%s: rank %d has %s", current, i,
                ra_status_name(statuses[i]));
        REQUIRE(strstr(ring_message(i), words) && strstr(ring_message(i), where), "%s: rank %d: %s", current, i,
                ring_message(i));
        named += statuses[i] == RA_ERROR_TIMEOUT;
    }
    REQUIRE(named, "%s: no timeout", current);
}

static void a_rank_that_never_comes_is_named(void **state)
{
    (void)state;
    static const way ways[] = {WAY_THREADS, WAY_MESSAGES_STORED};
    sample s;
    make_sample(&s, 300, 300, "full");
    for (int odd = 0; odd < 3; odd++) {
        ra_status statuses[MOST_RANKS];
        ring_case c = ring_case_make(ways[odd % 2], 3, (ra_strategy)odd, RA_ORDER_CONTIGUOUS);
        c.options.timeout = SHORT_TIMEOUT;
        c.odd_rank = odd;
        c.odd_absent = true;
        snprintf(current, sizeof current, "%s: rank %d never comes", ring_case_text(&c), odd);
        double start = seconds();
        run_case(&c, &s, NULL, statuses);
        double took = seconds() - start;
        REQUIRE(took >= SHORT_TIMEOUT && took < SHORT_TIMEOUT + 5, "%s: took %.2f s", current, took);
        require_silent(&c, statuses, odd, "the greeting");
    }
    sample_free(&s);
}

typedef struct sleeper {
    double each, most; /* seconds of a sleep, and of all */
    double slept;
} sleeper;

static int sleepy_poll(void *user, double done, double total)
{
    sleeper *s = user;
    (void)done, (void)total;
    if (s->slept < s->most) {
        sleep_for(s->each);
        s->slept += s->each;
    }
    return 0;
}

static void a_rank_that_falls_silent_is_named_with_the_hop(void **state)
{
    (void)state;
    static const way ways[] = {WAY_THREADS, WAY_MESSAGES};
    sample s;
    make_sample(&s, 300, 600, "full");
    for (int i = 0; i < 2; i++) {
        ra_status statuses[MOST_RANKS];
        sleeper sleeper = {3 * SHORT_TIMEOUT, 1, 0};
        ring_case c = ring_case_make(ways[i], 3, RA_STRATEGY_RING, RA_ORDER_CONTIGUOUS);
        c.options.timeout = SHORT_TIMEOUT;
        c.odd_rank = 1;
        c.odd_poll = sleepy_poll;
        c.odd_poll_user = &sleeper;
        snprintf(current, sizeof current, "%s: rank 1 falls silent", ring_case_text(&c));
        run_case(&c, &s, NULL, statuses);
        require_silent(&c, statuses, 1, "hop ");
        REQUIRE(statuses[1] == RA_ERROR_PEER, "%s: rank 1 has %s", current, ra_status_name(statuses[1]));
    }
    sample_free(&s);
}

static int napping_poll(void *user, double done, double total)
{
    (void)user, (void)done, (void)total;
    sleep_for(0.04);
    return 0;
}

/* All ranks have long hops; one is silent for less than a hop, while nobody has anything to wait for. */
static void silence_is_noticed_by_ranks_that_compute(void **state)
{
    (void)state;
    static const way ways[] = {WAY_THREADS, WAY_MESSAGES_STORED};
    sample s;
    make_sample(&s, 200, 9000, "full");
    for (int i = 0; i < 2; i++) {
        ra_status statuses[MOST_RANKS];
        sleeper sleeper = {3 * SHORT_TIMEOUT, 1, 0};
        ring_case c = ring_case_make(ways[i], 3, RA_STRATEGY_RING, RA_ORDER_CONTIGUOUS);
        c.options.timeout = SHORT_TIMEOUT;
        c.run.progress = napping_poll;
        c.odd_rank = 1;
        c.odd_poll = sleepy_poll;
        c.odd_poll_user = &sleeper;
        snprintf(current, sizeof current, "%s: rank 1 is silent in a long hop", ring_case_text(&c));
        run_case(&c, &s, NULL, statuses);
        require_silent(&c, statuses, 1, "hop ");
    }
    sample_free(&s);
}

static void a_slow_rank_ends_nothing(void **state)
{
    (void)state;
    static const way ways[] = {WAY_THREADS, WAY_MESSAGES_STORED};
    sample s;
    choices choice = {1};
    make_sample(&s, 200, 9000, "full");
    oracle_rows expected = sample_oracle(&s, ORACLE_ROWS, &choice);
    for (int i = 0; i < 2; i++) {
        sleeper sleeper = {0.03, 2.5, 0};
        ring_case c = ring_case_make(ways[i], 3, (ra_strategy)i, RA_ORDER_CONTIGUOUS);
        c.options.timeout = 0.5;
        c.odd_rank = 2;
        c.odd_poll = sleepy_poll;
        c.odd_poll_user = &sleeper;
        snprintf(current, sizeof current, "%s: rank 2 is slow", ring_case_text(&c));
        REQUIRE(run_case(&c, &s, NULL, NULL) == RA_OK, "%s: %s", current, ring_message(0));
        REQUIRE(sleeper.slept >= 5 * c.options.timeout, "%s: slept %.2f s only", current, sleeper.slept);
        require_right(&s, &expected, current);
    }
    oracle_free(&expected);
    sample_free(&s);
}

/* ---- The end of a communicator ---------------------------------------------------------------------------------- */

static int stop_poll(void *user, double done, double total)
{
    (void)user, (void)done, (void)total;
    return 1;
}

static void a_rank_that_is_cancelled_ends_the_run(void **state)
{
    (void)state;
    sample s;
    make_sample(&s, 300, 600, "full");
    for (int way = 0; way < WAYS; way++)
        for (int strategy = 0; strategy < STRATEGIES; strategy++) {
            ra_status statuses[MOST_RANKS];
            ring_case c = ring_case_make((enum way)way, 4, (ra_strategy)strategy, RA_ORDER_CONTIGUOUS);
            bool real = way > WAY_SIM_STORED;
            if (real)
                c.odd_rank = 2, c.odd_poll = stop_poll;
            else
                c.run.progress = stop_poll;
            snprintf(current, sizeof current, "%s: cancelled", ring_case_text(&c));
            ra_status status = run_case(&c, &s, NULL, statuses);
            REQUIRE(real || status == RA_ERROR_CANCELLED, "%s: %s", current, ra_status_name(status));
            for (int rank = 0; rank < c.options.ranks && real; rank++)
                REQUIRE(statuses[rank] == (rank == c.odd_rank ? RA_ERROR_CANCELLED : RA_ERROR_PEER),
                        "%s: rank %d has %s: %s", current, rank, ra_status_name(statuses[rank]), ring_message(rank));
        }
    sample_free(&s);
}

/* Of two ranks the other has left, or does not come: that is a failed run, and the last one. */
static void fail_and_try_again(bool leaves)
{
    enum { ROWS = 64, DIM = 4 };
    float x[ROWS * DIM] = {1}, y[ROWS * DIM];
    ra_problem problem = RA_PROBLEM_INIT;
    ra_ring_options options = RA_RING_OPTIONS_INIT;
    ra_ring_plan *plan;
    ra_comm *comms[2];
    problem.q_len = 2 * ROWS, problem.heads = 1, problem.head_dim = DIM;
    options.ranks = 2;
    options.transport = RA_TRANSPORT_THREADS;
    options.timeout = 0.05;
    ra_tensor in = ra_tensor_dense(x, RA_F32, RA_BSHD, 1, ROWS, 1, DIM),
              out = ra_tensor_dense(y, RA_F32, RA_BSHD, 1, ROWS, 1, DIM);
    assert_int_equal(ra_ring_plan_create(&problem, NULL, &options, &plan), RA_OK);
    assert_int_equal(ra_comm_threads(2, comms), RA_OK);
    if (leaves)
        ra_comm_free(comms[1]);
    assert_int_equal(ra_ring_forward(plan, comms[0], &in, &in, &in, &out, NULL, NULL),
                     leaves ? RA_ERROR_PEER : RA_ERROR_TIMEOUT);
    assert_non_null(strstr(ra_last_message(), leaves ? "rank 0: rank 1 has left during the greeting"
                                                     : "rank 0: rank 1 has been silent for"));
    assert_int_equal(ra_ring_forward(plan, comms[0], &in, &in, &in, &out, NULL, NULL), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "a run on this communicator has failed: make a new one");
    assert_int_equal(ra_comm_agree(comms[0], RA_OK, 1), RA_ERROR_PEER);
    ra_comm_free(comms[0]);
    if (!leaves)
        ra_comm_free(comms[1]);
    ra_ring_plan_free(plan);
}

static void a_communicator_is_of_no_use_after_a_failure(void **state)
{
    (void)state;
    fail_and_try_again(true);
    fail_and_try_again(false);
}

/* ---- Memory of what travels ------------------------------------------------------------------------------------- */

/* A transport that writes down where a rank receives to and sends from. */
enum { MOST_SEGMENTS = 4096 };

typedef struct note {
    int tag;
    bool received;
    ra_segment segment;
} note;

typedef struct witness {
    ra_transport inner;
    int count;
    int64_t messages;
    note notes[MOST_SEGMENTS];
} witness;

static void write_down(witness *w, int tag, bool received, const ra_segment *segments, int64_t count)
{
    for (int64_t i = 0; i < count && w->count < MOST_SEGMENTS; i++)
        w->notes[w->count++] = (note){tag, received, segments[i]};
    w->messages++;
}

static ra_status witness_receive(void *state, int from, int tag, const ra_segment *segments, int64_t count)
{
    witness *w = state;
    write_down(w, tag, true, segments, count);
    return w->inner.receive(w->inner.state, from, tag, segments, count);
}

static ra_status witness_send(void *state, int to, int tag, const ra_segment *segments, int64_t count)
{
    witness *w = state;
    write_down(w, tag, false, segments, count);
    return w->inner.send(w->inner.state, to, tag, segments, count);
}

static ra_status witness_progress(void *state, ra_transport_state *found)
{
    witness *w = state;
    return w->inner.progress(w->inner.state, found);
}

static void witness_notify(void *state, const ra_notice *notice)
{
    witness *w = state;
    w->inner.notify(w->inner.state, notice);
}

static int witness_abandon(void *state)
{
    witness *w = state;
    return w->inner.abandon(w->inner.state);
}

static void witness_close(void *state)
{
    witness *w = state;
    w->inner.close(w->inner.state);
}

static void wrap_witness(void *user, int rank, ra_transport *transport)
{
    witness *w = (witness *)user + rank;
    *w = (witness){.inner = *transport};
    transport->state = w;
    transport->receive = witness_receive;
    transport->send = witness_send;
    transport->progress = witness_progress;
    transport->notify = witness_notify;
    transport->abandon = witness_abandon;
    transport->close = witness_close;
}

static bool overlap(const ra_segment *a, const ra_segment *b)
{
    return (char *)a->at < (char *)b->at + b->bytes && (char *)b->at < (char *)a->at + a->bytes;
}

/*
 * Phase after phase has the next tag, and while one travels the rows of the one before are computed. So what is
 * received must not touch anything else that is received or sent in the same phase, or was received in the one before.
 */
static void require_apart(const witness *w, int rank)
{
    enum { GREETING, AGREEMENT, PHASES };
    for (int i = 0; i < w->count; i++)
        for (int j = 0; j < w->count; j++) {
            const note *a = &w->notes[i], *b = &w->notes[j];
            bool together = b->tag == a->tag || (b->received && b->tag == a->tag - 1);
            if (i == j || !a->received || a->tag < PHASES || b->tag < PHASES || !together)
                continue;
            REQUIRE(!overlap(&a->segment, &b->segment),
                    "%s: rank %d: phase %d receives %lld bytes at %p, and %s %lld bytes at %p in phase %d", current,
                    rank, a->tag - PHASES, (long long)a->segment.bytes, a->segment.at,
                    b->received ? "receives" : "sends", (long long)b->segment.bytes, b->segment.at, b->tag - PHASES);
        }
}

/* Whole keys and whole values, in memory of their own: nothing is left out of what was written down. */
static void require_all_written_down(const witness *w, const ra_rank_stats *stats)
{
    int64_t received = 0, sent = 0;
    assert_true(w->count < MOST_SEGMENTS);
    for (int i = 0; i < w->count; i++)
        if (w->notes[i].tag >= 2)
            *(w->notes[i].received ? &received : &sent) += w->notes[i].segment.bytes;
    REQUIRE(received == stats->bytes_received && sent == stats->bytes_sent, "%s: rank %d: %lld of %lld bytes received",
            current, stats->rank, (long long)received, (long long)stats->bytes_received);
}

static void what_travels_has_memory_of_its_own(void **state)
{
    (void)state;
    static const char *const patterns[] = {"full", "causal", "window:100,20"};
    witness *witnesses = calloc(MOST_RANKS, sizeof *witnesses);
    assert_non_null(witnesses);
    for (int i = 0; i < 3 * STRATEGIES * 3 * 2; i++) {
        ra_rank_stats stats[MOST_RANKS] = {RA_RANK_STATS_INIT};
        sample s;
        make_sample(&s, 500, 500, patterns[i % 3]);
        ring_case c = ring_case_make(i / 27 ? WAY_MESSAGES : WAY_MESSAGES_STORED, MOST_RANKS, (ra_strategy)(i / 3 % 3),
                                     (ra_order)(i / 9 % 3));
        c.wrap = wrap_witness;
        c.wrap_user = witnesses;
        snprintf(current, sizeof current, "%s, %s", ring_case_text(&c), patterns[i % 3]);
        REQUIRE(run_case(&c, &s, stats, NULL) == RA_OK, "%s: %s", current, ring_message(0));
        for (int rank = 0; rank < MOST_RANKS; rank++) {
            require_all_written_down(&witnesses[rank], &stats[rank]);
            require_apart(&witnesses[rank], rank);
        }
        sample_free(&s);
    }
    free(witnesses);
}

int main(void)
{
    static const way ways[] = {WAY_MESSAGES, WAY_MESSAGES_STORED, WAY_THREADS};
    const struct CMUnitTest tests[] = {
        {"every_fault: messages", every_fault, NULL, NULL, (void *)&ways[0]},
        {"every_fault: messages stored", every_fault, NULL, NULL, (void *)&ways[1]},
        {"every_fault: threads", every_fault, NULL, NULL, (void *)&ways[2]},
        cmocka_unit_test(every_fault_of_late_messages),
        cmocka_unit_test(a_rank_that_differs_is_named),
        cmocka_unit_test(a_rank_with_other_sinks_is_named),
        cmocka_unit_test(a_rank_that_never_comes_is_named),
        cmocka_unit_test(a_rank_that_falls_silent_is_named_with_the_hop),
        cmocka_unit_test(silence_is_noticed_by_ranks_that_compute),
        cmocka_unit_test(a_slow_rank_ends_nothing),
        cmocka_unit_test(a_rank_that_is_cancelled_ends_the_run),
        cmocka_unit_test(a_communicator_is_of_no_use_after_a_failure),
        cmocka_unit_test(what_travels_has_memory_of_its_own),
    };
    signal(SIGALRM, on_alarm);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
