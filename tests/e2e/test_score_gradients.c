/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients with scores against the double-precision oracle: of queries, keys and values, and of the arrays of scores,
 * each term alone and together; in one piece, and over ranks of every kind.
 */
#include "support/gradients.h"
#include "support/ring.h"
#include "support/scores.h"
#include "support/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As a part of a gradient's largest element or of 1: see test_gradients.c. */
#define TOLERANCE 4e-6

static const char *const names[D_INPUTS] = {"d_q", "d_k", "d_v"};
static const char *const array_names[SCORE_VIEWS] = {"d_slopes", "d_table", "d_bias", "d_sinks"};

/* A problem with scores, the gradients of its arrays, and what the oracle says of them. */
typedef struct scene {
    ra_problem problem;
    char pattern[512];
    made_scores scores;
    gradients g;
    placed d[SCORE_VIEWS];
    double *exact[SCORE_VIEWS];
    double largest[SCORE_VIEWS];
} scene;

static const ra_tensor *array_of(const scene *s, int array)
{
    const ra_score_arrays *a = &s->scores.arrays;
    return (const ra_tensor *const[]){a->slopes, a->table, a->bias, a->sinks}[array];
}

static int64_t elements(const ra_tensor *t)
{
    return t->batch * t->seq * t->heads * t->dim;
}

static double element(const ra_tensor *t, int64_t i)
{
    int64_t row = i / t->dim;
    return ra_tensor_get(t, row / t->heads / t->seq, row / t->heads % t->seq, row % t->heads, i % t->dim);
}

/* The field of the gradient of an array. */
static const ra_tensor **gradient_field(scene *s, int array)
{
    ra_score_arrays *a = &s->scores.arrays;
    return (const ra_tensor **const[]){&a->d_slopes, &a->d_table, &a->d_bias, &a->d_sinks}[array];
}

static bool gradient_wanted(scene *s, int array)
{
    return *gradient_field(s, array) != NULL;
}

/* With gradients of all arrays that the terms have. */
static void place_arrays(scene *s, choices *c)
{
    for (int i = 0; i < SCORE_VIEWS; i++) {
        const ra_tensor *t = array_of(s, i);
        if (!t)
            continue;
        s->d[i] = place_any(c, (const int64_t[4]){t->batch, t->seq, t->heads, t->dim}, RA_F32, 0);
        s->exact[i] = malloc((size_t)(elements(t) + 1) * sizeof(double));
        assert_non_null(s->exact[i]);
        *gradient_field(s, i) = &s->d[i].view;
    }
}

/* What patterns of batch elements need, of odd_problem: the keys of each, and where its queries are; single pairs. */
static void place_patterns(scene *s, choices *c)
{
    enum { BATCH = 2, QUERIES = 97, KEYS = 130 };
    static const int64_t lengths[BATCH][3] = {{3, 100, 20}, {17, KEYS, 33}};
    static unsigned char seen[BATCH][QUERIES][KEYS];
    static ra_tensor lengths_view, mask_view;
    lengths_view = ra_tensor_dense(lengths, RA_I64, RA_BSHD, BATCH, 1, 1, 3);
    mask_view = ra_tensor_dense(seen, RA_BOOL, RA_BSHD, BATCH, QUERIES, 1, KEYS);
    for (size_t i = 0; i < sizeof seen; i++)
        (&seen[0][0][0])[i] = (unsigned char)choose(c, 0, 1);
    if (strstr(s->problem.pattern, "lengths"))
        s->scores.arrays.lengths = &lengths_view;
    if (strstr(s->problem.pattern, "mask"))
        s->scores.arrays.mask = &mask_view;
}

/* s->problem is filled. */
static void scene_make(scene *s, unsigned terms, choices *c, bool dense)
{
    memset(s->d, 0, sizeof s->d);
    memset(s->exact, 0, sizeof s->exact);
    make_scores(c, terms, &s->problem, &s->scores);
    place_patterns(s, c);
    place_arrays(s, c);
    if (dense)
        gradients_make(&s->g, &s->problem, true);
    else
        gradients_make_any(&s->g, &s->problem, ANY_DTYPE, c);
}

static void scene_free(scene *s)
{
    gradients_free(&s->g);
    for (int i = 0; i < SCORE_VIEWS; i++) {
        free(s->d[i].memory);
        free(s->exact[i]);
    }
    scores_free(&s->scores);
}

/* What a gradient of 1 of a score gives to an array's gradient: to a slope, its distance, which may be this. */
static double unit_of(const scene *s, int array)
{
    const ra_problem *p = &s->problem;
    double apart = p->query_position == RA_SAME ? 0 : fabs((double)(p->query_position - p->key_position));
    return array == SCORE_SLOPES ? apart + (double)(p->q_len + p->kv_len) : 1;
}

/* After a run, for an output of 16 bits is rounded. */
static void scene_solve(scene *s)
{
    gradients_solve(&s->g);
    for (int i = 0; i < SCORE_VIEWS; i++) {
        s->largest[i] = unit_of(s, i);
        for (int64_t j = 0; s->exact[i] && j < elements(&s->d[i].view); j++) {
            s->exact[i][j] = element(&s->d[i].view, j);
            s->largest[i] = fmax(s->largest[i], fabs(s->exact[i][j]));
        }
    }
}

static void wipe_arrays(scene *s)
{
    for (int i = 0; i < SCORE_VIEWS; i++)
        if (s->d[i].memory)
            memset(s->d[i].memory, 0xff, s->d[i].bytes);
}

static double array_error(const scene *s, int array)
{
    double error = 0;
    for (int64_t j = 0; s->exact[array] && j < elements(&s->d[array].view); j++) {
        double off = fabs(element(&s->d[array].view, j) - s->exact[array][j]);
        error = off <= error ? error : off; /* NaN stays */
    }
    return error / s->largest[array];
}

/* A copy of the gradients of arrays, which the caller frees. */
static char *keep_arrays(const scene *s)
{
    size_t bytes = 1;
    for (int i = 0; i < SCORE_VIEWS; i++)
        bytes += s->d[i].bytes;
    char *kept = malloc(bytes), *to = kept;
    assert_non_null(kept);
    for (int i = 0; i < SCORE_VIEWS; i++) {
        if (s->d[i].bytes)
            memcpy(to, s->d[i].memory, s->d[i].bytes);
        to += s->d[i].bytes;
    }
    return kept;
}

static bool same_array(const scene *s, const char *kept, int array)
{
    for (int i = 0; i < array; i++)
        kept += s->d[i].bytes;
    return !s->d[array].bytes || memcmp(kept, s->d[array].memory, s->d[array].bytes) == 0;
}

static const char *scene_text(const scene *s)
{
    static char text[1600];
    snprintf(text, sizeof text, "%s; scores %s", gradients_text(&s->g), s->scores.text);
    return text;
}

static void judge(scene *s, const char *how, uint64_t seed)
{
    for (int i = 0; i < D_INPUTS; i++)
        REQUIRE(gradients_part(&s->g, i) <= 1, "seed %llu, %s, %s: %s off by %.2e, %.2f of its tolerance",
                (unsigned long long)seed, how, scene_text(s), names[i], gradients_error(&s->g, i),
                gradients_part(&s->g, i));
    for (int i = 0; i < SCORE_VIEWS; i++) {
        if (!s->exact[i] || !gradient_wanted(s, i))
            continue;
        REQUIRE(array_error(s, i) <= TOLERANCE, "seed %llu, %s, %s: %s off by %.2e", (unsigned long long)seed, how,
                scene_text(s), array_names[i], array_error(s, i));
        REQUIRE(placed_padding_kept(&s->d[i]), "seed %llu, %s, %s: %s wrote outside its elements",
                (unsigned long long)seed, how, scene_text(s), array_names[i]);
    }
}

/* With every kernel. */
static void run_and_judge(scene *s, uint64_t seed)
{
    bool solved = false;
    FOR_EACH_KERNEL (kernel) {
        if (!solved || s->g.s.tensors[SAMPLE_OUTPUT].dtype != RA_F32) {
            gradients_run(&s->g, kernel, 1);
            scene_solve(s);
            solved = true;
        }
        wipe_arrays(s);
        gradients_run(&s->g, kernel, 1 + (int)(seed % 4));
        judge(s, ra_kernel_name(kernel), seed);
    }
}

static void choose_problem(choices *c, scene *s)
{
    s->problem = (ra_problem)RA_PROBLEM_INIT;
    ra_problem *p = &s->problem;
    p->batch = choose(c, 1, 2);
    p->kv_heads = choose(c, 1, 2);
    p->heads = p->kv_heads * choose(c, 1, 3);
    p->head_dim = choose(c, 1, 40);
    p->value_dim = chance(c, 2) ? choose(c, 1, 40) : p->head_dim;
    p->q_len = chance(c, 6) ? choose(c, 1, 8) : choose(c, 1, 150);
    p->kv_len = chance(c, 3) ? p->q_len : choose(c, 1, 200);
    p->pattern = s->pattern;
    choose_pattern(c, p->kv_len, s->pattern, sizeof s->pattern);
    choose_positions(c, p);
}

static void random_problems(void **state)
{
    (void)state;
    seed_range range = seeds(120);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        scene s;
        choose_problem(&c, &s);
        scene_make(&s, choose_terms(&c), &c, false);
        run_and_judge(&s, seed);
        scene_free(&s);
    }
}

/* ---- One term after the other ------------------------------------------------------------------------------------ */

static const char *const patterns[] = {
    "full",
    "causal",
    "window:9,4",
    "documents:31,2,64,33",
    "causal+documents:20/31,0/2,40/66,37/31",
    "dilated:16/1,64/4",
    "dilated:16/1,16/1,64/3:mode=union",
    "causal+dilated:8/1,8/1,30/2",
    "blocks:16:local=1:global=1",
    "causal+blocks:8:stride=3",
    "dilated:32/2,64/1+blocks:16:local=1",
    "causal+lengths",
    "mask",
};
enum { PATTERNS = sizeof patterns / sizeof *patterns };

static ra_problem odd_problem(const char *pattern, int group)
{
    ra_problem p = RA_PROBLEM_INIT;
    p.batch = 2, p.q_len = 97, p.kv_len = 130, p.heads = 2 * group, p.kv_heads = 2;
    p.head_dim = 17, p.value_dim = 9, p.pattern = pattern;
    return p;
}

/* Whether a pattern fixes the number of queries of odd_problem. */
static bool fixes_queries(const char *pattern)
{
    return strstr(pattern, "/31,0/") || strstr(pattern, "mask");
}

static void each_term_alone(void **state)
{
    (void)state;
    for (unsigned term = WITH_SOFTCAP; term <= WITH_DROPOUT; term *= 2)
        for (int i = 0; i < PATTERNS; i++) {
            choices c = {term * PATTERNS + (unsigned)i};
            scene s = {.problem = odd_problem(patterns[i], 1 + i % 2)};
            scene_make(&s, term, &c, true);
            run_and_judge(&s, 1 + (uint64_t)i);
            scene_free(&s);
        }
}

/* What comes before softcap takes its derivative, what comes after does not. */
static void softcap_before_and_after(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        choices c = {seed};
        scene s = {.problem = odd_problem("causal", 2)};
        scene_make(&s, WITH_SOFTCAP | WITH_ALIBI | WITH_RELATIVE | WITH_BIAS, &c, true);
        run_and_judge(&s, seed);
        scene_free(&s);
    }
}

/* Tiles along a curve, with the steps of their stages. */
static void tile_orders(void **state)
{
    (void)state;
    static const bool all[D_INPUTS] = {true, true, true};
    for (uint64_t seed = 1; seed <= 6; seed++) {
        choices c = {seed};
        ra_options options = RA_OPTIONS_INIT;
        scene s = {.problem = odd_problem(seed % 2 ? "causal" : "dilated:16/1,64/4", 2)};
        s.problem.kv_len = 700;
        scene_make(&s, WITH_ANY, &c, true);
        gradients_run(&s.g, RA_KERNEL_AUTO, 1);
        scene_solve(&s);
        wipe_arrays(&s);
        options.tiles = seed % 3 ? RA_TILES_HILBERT : RA_TILES_SERPENTINE;
        options.threads = 2;
        gradients_run_as(&s.g, &options, all, NULL);
        judge(&s, ra_tile_order_name(options.tiles), seed);
        scene_free(&s);
    }
}

/* A plan for more keys, and tensors with those that are there. A bias has a length of its own. */
static void fewer_keys(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        choices c = {seed};
        ra_plan *plan = NULL;
        scene s = {.problem = odd_problem(seed % 2 ? "causal" : "window:30,5", 2)};
        scene_make(&s, WITH_ANY & ~(unsigned)WITH_BIAS, &c, true);
        gradients_run(&s.g, RA_KERNEL_AUTO, 2); /* output and lse */
        scene_solve(&s);
        wipe_arrays(&s);
        const ra_tensor *t = s.g.s.tensors;
        ra_problem longer = s.problem;
        longer.kv_len += 300;
        REQUIRE(!ra_plan_create(&longer, NULL, &plan), "%s", ra_last_message());
        REQUIRE(!ra_backward(plan, &t[0], &t[1], &t[2], &t[SAMPLE_OUTPUT], &t[SAMPLE_LSE], &s.g.d[D_OUTPUT].view,
                             &s.g.d[D_LSE].view, &s.g.d[D_QUERY].view, &s.g.d[D_KEY].view, &s.g.d[D_VALUE].view, NULL),
                "%s", ra_last_message());
        ra_plan_free(plan);
        judge(&s, "fewer keys", seed);
        scene_free(&s);
    }
}

/* ---- Bits -------------------------------------------------------------------------------------------------------- */

/* Of everything, a bias that heads and batches share included. */
static void bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        choices c = {seed};
        scene s = {.problem = odd_problem(patterns[seed % PATTERNS], 2)};
        s.problem.q_len = fixes_queries(s.problem.pattern) ? 97 : 300;
        scene_make(&s, WITH_ANY, &c, true);
        FOR_EACH_KERNEL (kernel) {
            gradients_run(&s.g, kernel, 1);
            char *one = gradients_keep(&s.g), *arrays = keep_arrays(&s);
            for (int threads = 2; threads <= 8; threads++) {
                wipe_arrays(&s);
                gradients_run(&s.g, kernel, threads);
                for (int i = 0; i < D_INPUTS; i++)
                    REQUIRE(gradients_same(&s.g, one, i), "%s: other bits of %s with %d threads", scene_text(&s),
                            names[i], threads);
                for (int i = 0; i < SCORE_VIEWS; i++)
                    REQUIRE(same_array(&s, arrays, i), "%s: other bits of %s with %d threads", scene_text(&s),
                            array_names[i], threads);
            }
            free(one);
            free(arrays);
        }
        scene_free(&s);
    }
}

/* An array's gradient has the same bits whether or not others are wanted, and what is not wanted is not touched. */
static void any_of_the_arrays(void **state)
{
    (void)state;
    static const bool none[D_INPUTS] = {false, false, false};
    for (unsigned bits = 0; bits < 1U << SCORE_VIEWS; bits++) {
        choices c = {bits + 1};
        ra_options options = RA_OPTIONS_INIT;
        ra_stats stats = RA_STATS_INIT;
        scene s = {.problem = odd_problem("causal", 2)};
        scene_make(&s, WITH_ANY, &c, true);
        gradients_run(&s.g, RA_KERNEL_AUTO, 2);
        char *all = keep_arrays(&s);
        wipe_arrays(&s);
        for (int i = 0; i < SCORE_VIEWS; i++)
            *gradient_field(&s, i) = bits >> i & 1 ? &s.d[i].view : NULL;
        options.threads = 2;
        gradients_run_as(&s.g, &options, none, &stats);
        for (int i = 0; i < SCORE_VIEWS; i++) {
            bool untouched = true;
            for (size_t j = 0; j < s.d[i].bytes; j++)
                untouched &= ((const unsigned char *)s.d[i].memory)[j] == 0xff;
            assert_true(bits >> i & 1 ? same_array(&s, all, i) : untouched);
        }
        assert_true(stats.peak_bytes <= stats.planned_peak_bytes);
        free(all);
        scene_free(&s);
    }
}

/* ---- Mistakes that are easily made ------------------------------------------------------------------------------- */

/* The gradients of values are linear in those of the output: both drop the same weights, or the products differ. */
static void dropout_drops_the_same_in_both_directions(void **state)
{
    (void)state;
    for (int i = 0; i < PATTERNS; i++) {
        choices c = {(uint64_t)i + 1};
        double forward = 0, backward = 0, size = 0;
        scene s = {.problem = odd_problem(patterns[i], 2)};
        scene_make(&s, WITH_DROPOUT, &c, true);
        gradients_run(&s.g, RA_KERNEL_AUTO, 2);
        const ra_tensor *output = &s.g.s.tensors[SAMPLE_OUTPUT], *value = &s.g.s.tensors[SAMPLE_VALUE];
        for (int64_t j = 0; j < elements(output); j++)
            forward += element(output, j) * element(&s.g.d[D_OUTPUT].view, j);
        for (int64_t j = 0; j < elements(value); j++) {
            backward += element(value, j) * element(&s.g.d[D_VALUE].view, j);
            size += fabs(element(value, j) * element(&s.g.d[D_VALUE].view, j));
        }
        REQUIRE(fabs(forward - backward) <= 1e-5 * size, "%s: %.9g and %.9g", scene_text(&s), forward, backward);
        scene_free(&s);
    }
}

/* Rows that see no key: their sink has all the weight, and what they know of it is the gradient by the lse. */
static void empty_rows_have_their_sink(void **state)
{
    (void)state;
    for (int64_t keys = 0; keys <= 9; keys += 9) {
        choices c = {1};
        scene s = {.problem = odd_problem("window:0,5", 1)};
        s.problem.kv_len = keys; /* most queries, which are aligned to the end, see nothing */
        scene_make(&s, WITH_SINKS, &c, true);
        gradients_run(&s.g, RA_KERNEL_AUTO, 2);
        for (int64_t j = 0; keys == 0 && j < elements(&s.g.d[D_QUERY].view); j++)
            assert_true(element(&s.g.d[D_QUERY].view, j) == 0);
        for (int64_t head = 0; keys == 0 && head < s.problem.heads; head++) {
            double sum = 0, d_sink = ra_tensor_get(&s.d[SCORE_SINKS].view, 0, 0, head, 0);
            for (int64_t row = 0; row < s.problem.batch * s.problem.q_len; row++)
                sum += ra_tensor_get(&s.g.d[D_LSE].view, row / s.problem.q_len, row % s.problem.q_len, head, 0);
            REQUIRE(fabs(sum - d_sink) <= 1e-5, "head %lld: %.9g, not %.9g", (long long)head, d_sink, sum);
        }
        if (keys > 0)
            run_and_judge(&s, 1);
        scene_free(&s);
    }
}

/* What is written shares memory with nothing: gradients of arrays with no tensor, an output with no array. */
static void arrays_that_overlap(void **state)
{
    (void)state;
    choices c = {3};
    ra_plan *plan = NULL;
    scene s = {.problem = odd_problem("full", 1)};
    scene_make(&s, WITH_SINKS, &c, true);
    gradients_run(&s.g, RA_KERNEL_AUTO, 1);
    const ra_tensor *t = s.g.s.tensors;
    ra_tensor inside = s.d[SCORE_SINKS].view;
    inside.data = s.g.d[D_QUERY].memory;
    *gradient_field(&s, SCORE_SINKS) = &inside;
    assert_int_equal(ra_plan_create(&s.problem, NULL, &plan), RA_OK);
    assert_int_equal(ra_backward(plan, &t[0], &t[1], &t[2], &t[SAMPLE_OUTPUT], &t[SAMPLE_LSE], &s.g.d[D_OUTPUT].view,
                                 NULL, &s.g.d[D_QUERY].view, NULL, NULL, NULL),
                     RA_ERROR_ARGUMENT);
    assert_non_null(strstr(ra_last_message(), "d_sinks"));
    ra_plan_free(plan);
    s.scores.views[SCORE_SINKS].data = t[SAMPLE_OUTPUT].data;
    assert_int_equal(ra_plan_create(&s.problem, NULL, &plan), RA_OK);
    assert_int_equal(ra_forward(plan, &t[0], &t[1], &t[2], &t[SAMPLE_OUTPUT], &t[SAMPLE_LSE], NULL), RA_ERROR_ARGUMENT);
    assert_non_null(strstr(ra_last_message(), "sinks"));
    ra_plan_free(plan);
    scene_free(&s);
}

/* ---- Over ranks -------------------------------------------------------------------------------------------------- */

enum { MOST_RANKS = 8 };

/* A ring with the tensors of the scene: right, with the bits of one piece in what was added up over rows. */
static void require_ring(scene *s, ring_case *r, const char *local, uint64_t seed)
{
    ra_rank_stats stats[MOST_RANKS] = {RA_RANK_STATS_INIT};
    const ra_tensor backward[RING_GRADIENTS] = {s->g.d[D_OUTPUT].view, s->g.d[D_LSE].view, s->g.d[D_QUERY].view,
                                                s->g.d[D_KEY].view, s->g.d[D_VALUE].view};
    r->backward = backward;
    wipe_arrays(s);
    REQUIRE(ring_case_run(r, &s->g.s, stats, NULL) == RA_OK, "seed %llu, %s, %s: %s", (unsigned long long)seed,
            ring_case_text(r), scene_text(s), ring_message(0));
    judge(s, ring_case_text(r), seed);
    for (int i = 0; i < SCORE_VIEWS; i++)
        REQUIRE(!gradient_wanted(s, i) || same_array(s, local, i),
                "seed %llu, %s, %s: %s has other bits than one piece", (unsigned long long)seed, ring_case_text(r),
                scene_text(s), array_names[i]);
    for (int rank = 0; rank < r->options.ranks; rank++)
        REQUIRE(stats[rank].peak_bytes <= stats[rank].planned_peak_bytes, "rank %d: %lld bytes of %lld", rank,
                (long long)stats[rank].peak_bytes, (long long)stats[rank].planned_peak_bytes);
}

static void random_rings(void **state)
{
    (void)state;
    seed_range range = seeds(60);
    for (uint64_t seed = range.first; seed < range.end; seed++) {
        choices c = {seed};
        scene s;
        choose_problem(&c, &s);
        scene_make(&s, choose_terms(&c), &c, true);
        gradients_run(&s.g, RA_KERNEL_AUTO, 1);
        char *local = keep_arrays(&s);
        scene_solve(&s);
        for (int i = 0; i < 3; i++) {
            ring_case r = ring_case_make((way)choose(&c, 0, WAYS - 1), (int)choose(&c, 1, MOST_RANKS),
                                         (ra_strategy)choose(&c, 0, 2), (ra_order)choose(&c, 0, 2));
            r.run.threads = (int)choose(&c, 1, 3);
            r.sparing = chance(&c, 3);
            require_ring(&s, &r, local, seed);
        }
        free(local);
        scene_free(&s);
    }
}

/* Rings of several sizes and orders with the tensors of one problem. */
static void require_rings(const char *pattern, unsigned terms, uint64_t seed)
{
    static const int sizes[] = {2, 3, 7};
    choices c = {seed};
    scene s = {.problem = odd_problem(pattern, 2)};
    scene_make(&s, terms, &c, true);
    gradients_run(&s.g, RA_KERNEL_AUTO, 1);
    char *local = keep_arrays(&s);
    scene_solve(&s);
    for (int i = 0; i < 3; i++)
        for (int strategy = 0; strategy < 3; strategy++)
            for (int way = 0; way < WAYS; way++) {
                ring_case r = ring_case_make((enum way)way, sizes[i], (ra_strategy)strategy,
                                             (ra_order)((i + strategy + way) % 3));
                require_ring(&s, &r, local, seed);
            }
    free(local);
    scene_free(&s);
}

static void patterns_of_batch_elements(void **state)
{
    (void)state;
    require_rings("causal+lengths", WITH_ANY, 1);
    require_rings("mask", WITH_ANY, 2);
}

static void dropout_does_not_depend_on_the_ring(void **state)
{
    (void)state;
    require_rings("causal", WITH_DROPOUT, 1);
    require_rings("dilated:16/1,64/4", WITH_DROPOUT, 2);
}

static void sinks_count_once_a_row(void **state)
{
    (void)state;
    require_rings("full", WITH_SINKS, 1);
    require_rings("dilated:16/1,16/1,64/3:mode=union", WITH_SINKS, 2);
    require_rings("causal+dilated:8/1,8/1,30/2", WITH_SINKS, 3);
}

/* By the rows and keys of the whole problem, not by those of a rank: biases of all shapes. */
static void bias_goes_by_global_rows(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++)
        require_rings(patterns[seed], WITH_BIAS, seed);
}

static void positions_are_global(void **state)
{
    (void)state;
    require_rings("window:20,9", WITH_ALIBI | WITH_RELATIVE | WITH_SOFTCAP, 1);
    require_rings("dilated:16/1,64/4", WITH_ALIBI | WITH_RELATIVE, 2);
}

/* What a rank that goes its own way has instead of the others' arrays. */
static const ra_score_arrays *other_arrays;

static void take_other_arrays(ra_problem *problem, ra_options *run, ra_ring_options *options)
{
    (void)run;
    (void)options;
    problem->score_arrays = other_arrays;
}

/* The gradients of arrays once more, for a rank of its own; the caller frees their memory. */
static ra_score_arrays other_gradients(scene *s, placed other[SCORE_VIEWS])
{
    ra_score_arrays kept = s->scores.arrays, arrays;
    for (int i = 0; i < SCORE_VIEWS; i++) {
        const ra_tensor *t = &s->d[i].view;
        other[i] = place_dense((const int64_t[4]){t->batch, t->seq, t->heads, t->dim});
        *gradient_field(s, i) = &other[i].view;
    }
    arrays = s->scores.arrays;
    s->scores.arrays = kept;
    return arrays;
}

/* As in processes: the total is on every rank, whether ranks have the same arrays or their own. */
static void every_rank_has_the_total(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        choices c = {seed};
        placed other[SCORE_VIEWS];
        scene s = {.problem = odd_problem(patterns[seed % PATTERNS], 2)};
        if (!fixes_queries(s.problem.pattern))
            s.problem.q_len = 300; /* more elements of a bias than travel at a time */
        scene_make(&s, WITH_ANY, &c, true);
        gradients_run(&s.g, RA_KERNEL_AUTO, 1);
        char *local = keep_arrays(&s);
        scene_solve(&s);
        ra_score_arrays arrays = other_gradients(&s, other);
        ring_case r = ring_case_make(WAY_MESSAGES, 4, (ra_strategy)(seed % 3), (ra_order)(seed / 3 % 3));
        other_arrays = &arrays;
        r.odd_rank = (int)(seed % 4);
        r.odd = take_other_arrays;
        require_ring(&s, &r, local, seed);
        for (int i = 0; i < SCORE_VIEWS; i++) {
            for (int64_t j = 0; j < elements(&s.d[i].view); j++)
                REQUIRE(element(&s.d[i].view, j) == element(&other[i].view, j), "seed %llu, %s: element %lld of %s",
                        (unsigned long long)seed, scene_text(&s), (long long)j, array_names[i]);
            free(other[i].memory);
        }
        free(local);
        scene_free(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_term_alone),
        cmocka_unit_test(softcap_before_and_after),
        cmocka_unit_test(random_problems),
        cmocka_unit_test(tile_orders),
        cmocka_unit_test(fewer_keys),
        cmocka_unit_test(bits_do_not_depend_on_threads),
        cmocka_unit_test(any_of_the_arrays),
        cmocka_unit_test(dropout_drops_the_same_in_both_directions),
        cmocka_unit_test(empty_rows_have_their_sink),
        cmocka_unit_test(arrays_that_overlap),
        cmocka_unit_test(random_rings),
        cmocka_unit_test(patterns_of_batch_elements),
        cmocka_unit_test(dropout_does_not_depend_on_the_ring),
        cmocka_unit_test(sinks_count_once_a_row),
        cmocka_unit_test(bias_goes_by_global_rows),
        cmocka_unit_test(positions_are_global),
        cmocka_unit_test(every_rank_has_the_total),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
