/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ringattn bench memory: what a rank of a ring holds, over ring sizes and over lengths. Each run is a process of its
 * own, this command's `attend` over files, so that the operating system's figure is that run's alone; the figures are
 * read back from its statistics, and rows of its output are compared with the oracle.
 */
#include "fit.h"
#include "harness.h"
#include "launch.h"
#include "stats_row.h"
#include "tensors.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    HEADS = 8,
    DIM = 64,
    PLAN_LENGTH = 65536,
    RUN_LENGTH = 16384, /* some seconds a run; time grows with its square */
    QUICK_LENGTH = 4096,
    IDLE_LENGTH = 64,
    LEAST_ROWS = 64,   /* a part is 64 positions or more; with smaller ones some ranks would have nothing */
    FITTED_ROWS = 256, /* below, what is rounded up to whole vectors and blocks bends the line */
    SHORT_FACTOR = 8,  /* of a rank's rows of one tensor: for float32, */
    LONG_FACTOR = 9,   /* and for half of that, because the states stay float32 */
    F16_RANKS = 16,
    LENGTH_RANKS = 8 /* of runs of several lengths */
};
static const int64_t MIB = 1 << 20;
static const int64_t FIXED_BYTES = 4 << 20;    /* of the bound */
static const int64_t PROCESS_BYTES = 24 << 20; /* what a process may need beside what is accounted */
static const int64_t MPI_BYTES = 4 << 20;      /* what messages may add to an idle MPI process */
static const double LEAST_OF_PLAN = 0.9, SLOPE = -1, SLOPE_WITHIN = 0.02;
static const int RINGS[] = {2, 4, 8, 16, 32, 64};
static const char RINGS_PART[] = "rings";
enum { RING_COUNT = sizeof RINGS / sizeof *RINGS, LENGTH_COUNT = 4, MOST_POINTS = RING_COUNT, MPI_MOST = 4 };

/* What a rank holds, and may hold. Figures of runs are 0 where only a plan was made. */
typedef struct memory_row {
    int ranks, rank; /* rank -1: the largest of them */
    ra_dtype dtype;
    int64_t length;
    int64_t planned, accounted, resident;
    int64_t bound;          /* of planned and accounted; 0: none */
    int64_t resident_bound; /* 0: none */
} memory_row;

typedef struct memory_bench {
    const bench_options *options;
    launch command;
    char directory[PATH_MAX - 32];
    int64_t length;
    int wrong;
    results *kept;
    bench_pool pool; /* what the inputs are made of */
} memory_bench;

/* ---- What must hold ---------------------------------------------------------------------------------------------- */

static int64_t bound_of(int64_t length, int ranks, ra_dtype dtype)
{
    int64_t rows = (length + ranks - 1) / ranks, size = (int64_t)ra_dtype_size(dtype);
    return (dtype == RA_F32 ? SHORT_FACTOR : LONG_FACTOR) * rows * HEADS * DIM * size + FIXED_BYTES;
}

static bool within_bound(const memory_row *r)
{
    return !r->bound || (r->planned <= r->bound && r->accounted <= r->bound);
}

static bool as_planned(const memory_row *r)
{
    return !r->accounted || (r->accounted <= r->planned && (double)r->accounted >= LEAST_OF_PLAN * (double)r->planned);
}

static bool resident_holds(const memory_row *r)
{
    return !r->resident_bound || (r->resident > 0 && r->resident <= r->resident_bound);
}

/* ---- Plans and runs ---------------------------------------------------------------------------------------------- */

static int refused(const memory_row *r)
{
    fprintf(stderr, "ringattn bench: %d ranks: %s\n", r->ranks, ra_last_message());
    return 1;
}

static void add_row(const memory_bench *b, const memory_row *r, result_row *row, const char *name)
{
    row->suite = "memory";
    row->name = name;
    if (r->bound)
        result_figure(row, "bound_bytes", (double)r->bound);
    if (r->resident_bound)
        result_figure(row, "rss_bound_bytes", (double)r->resident_bound);
    if (!within_bound(r) || !as_planned(r) || !resident_holds(r))
        row->reason = "more memory than there may be";
    results_add(b->kept, row);
}

/* The plan of `ringattn attend` for files of that length. */
static int plan_row(const memory_bench *b, memory_row *r)
{
    ra_problem problem = RA_PROBLEM_INIT;
    ra_ring_options ring = RA_RING_OPTIONS_INIT;
    ra_ring_plan *plan;
    problem.q_len = r->length;
    problem.heads = HEADS;
    problem.head_dim = DIM;
    ring.ranks = r->ranks;
    ring.q_dtype = ring.k_dtype = ring.v_dtype = r->dtype;
    ring.lent = 0;
    if (ra_ring_plan_create(&problem, NULL, &ring, &plan))
        return refused(r);
    r->planned = ra_ring_plan_process_bytes(plan);
    r->bound = bound_of(r->length, r->ranks, r->dtype);
    ra_plan_info info = RA_PLAN_INFO_INIT;
    ra_plan_describe(ra_ring_plan_problem(plan), &info);
    result_row row = {.problem = problem,
                      .dtype = r->dtype,
                      .strategy = "ring",
                      .transport = "sim",
                      .ring_size = r->ranks,
                      .kernel = info.kernel,
                      .threads = info.threads,
                      .planned_bytes = r->planned};
    for (int rank = 0; rank < r->ranks; rank++) {
        ra_rank_info of_rank = RA_RANK_INFO_INIT;
        ra_ring_plan_rank(plan, rank, &of_rank);
        row.hops += of_rank.hops;
        row.bytes_received += of_rank.bytes_received;
    }
    add_row(b, r, &row, "plan");
    ra_ring_plan_free(plan);
    return 0;
}

static void path_of(const memory_bench *b, const char *name, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%s", b->directory, name);
}

/* The three inputs, replacing those of another length or dtype. */
static int make_inputs(const memory_bench *b, int64_t length, ra_dtype dtype)
{
    static const char *const NAMES[] = {"q.npy", "k.npy", "v.npy"}, *const SEEDS[] = {"1", "2", "3"};
    char shape[64], path[PATH_MAX];
    snprintf(shape, sizeof shape, "1,%lld,%d,%d", (long long)length, HEADS, DIM);
    for (int i = 0; i < 3; i++) {
        path_of(b, NAMES[i], path);
        const char *const arguments[] = {"generate",           "--shape",  shape, "--seed", SEEDS[i], "--dtype",
                                         ra_dtype_name(dtype), "--output", path,  NULL};
        if (launch_run(&b->command, 0, LAUNCH_RESULTS_TOO, arguments))
            return 1;
    }
    return 0;
}

/* `ringattn attend` over the inputs, by `processes` processes of MPI or by `ranks` virtual ranks. */
static int attend(const memory_bench *b, int processes, int ranks, json_t **statistics)
{
    char q[PATH_MAX], k[PATH_MAX], v[PATH_MAX], o[PATH_MAX], s[PATH_MAX], ring[16];
    path_of(b, "q.npy", q);
    path_of(b, "k.npy", k);
    path_of(b, "v.npy", v);
    path_of(b, "o.npy", o);
    path_of(b, "s.json", s);
    snprintf(ring, sizeof ring, "%d", ranks);
    const char *const arguments[] = {"attend",
                                     "--query",
                                     q,
                                     "--key",
                                     k,
                                     "--value",
                                     v,
                                     "--output",
                                     o,
                                     "--stats",
                                     s,
                                     "--ring",
                                     ring,
                                     "--transport",
                                     processes ? "mpi" : "sim",
                                     NULL};
    int code = launch_run(&b->command, processes, LAUNCH_RESULTS_TOO, arguments);
    if (code) {
        fprintf(stderr, "ringattn bench: attend --ring %d --transport %s: exit code %d\n", ranks,
                processes ? "mpi" : "sim", code);
        return 1;
    }
    json_error_t error;
    *statistics = json_load_file(s, 0, &error);
    if (!*statistics)
        fprintf(stderr, "ringattn bench: %s: %s\n", s, error.text);
    return *statistics ? 0 : 1;
}

/* Rows of the output in its file, against the oracle on the inputs made once more. */
static ra_status compare_rows(const memory_bench *b, bench_tensors *t, const ra_plan *plan, result_row *row)
{
    char path[PATH_MAX];
    ra_array *array = NULL;
    path_of(b, "o.npy", path);
    ra_status status = ra_array_open(path, &array);
    if (!status)
        status = ra_array_read(array, 0, t->q.seq * HEADS * DIM, t->output.data);
    for (int i = 0; i < BENCH_CHECKED_ROWS && !status; i++)
        status = bench_check_row(plan, t, i, &row->error);
    ra_array_close(array);
    row->rows = BENCH_CHECKED_ROWS;
    row->tolerance = bench_tolerance(row->dtype);
    return status;
}

static int check_output(memory_bench *b, result_row *row)
{
    bench_shape shape = bench_shape_square(row->problem.q_len, HEADS, DIM);
    ra_plan *plan = NULL;
    shape.dtype = row->dtype;
    bench_tensors *tensors = bench_pool_get(&b->pool, &shape, "memory");
    if (!tensors)
        return 1;
    ra_status status = ra_plan_create(&row->problem, NULL, &plan);
    if (!status)
        status = compare_rows(b, tensors, plan, row);
    ra_plan_free(plan);
    if (status)
        fprintf(stderr, "ringattn bench: %s\n", ra_last_message());
    else if (!(row->error <= row->tolerance))
        fprintf(stderr, "ringattn bench: %d ranks: the result is off by %.1e\n", row->ring_size, row->error);
    return status || !(row->error <= row->tolerance);
}

/* `fresh`: there is no row of it yet. */
static int run_row(memory_bench *b, memory_row *r, bool fresh)
{
    json_t *statistics = NULL;
    if (attend(b, 0, r->ranks, &statistics))
        return 1;
    result_row row = {0};
    stats_row(statistics, &row);
    r->planned = row.planned_bytes;
    r->accounted = row.peak_bytes;
    r->resident = row.resident_bytes;
    r->bound = bound_of(r->length, r->ranks, r->dtype);
    r->resident_bound = r->accounted + PROCESS_BYTES;
    int failed = check_output(b, &row);
    if (fresh)
        add_row(b, r, &row, "run");
    json_decref(statistics);
    return failed;
}

/* rows[0 .. processes), one for each rank; idle[rank]: what its process uses when it has hardly anything to do. */
static int run_processes(memory_bench *b, int processes, const int64_t *idle, memory_row *rows)
{
    json_t *statistics = NULL;
    if (attend(b, processes, processes, &statistics))
        return 1;
    const json_t *ranks = json_object_get(statistics, "ranks");
    result_row row = {0};
    stats_row(statistics, &row);
    for (int rank = 0; rank < processes; rank++) {
        const json_t *r = json_array_get(ranks, (size_t)rank);
        rows[rank] = (memory_row){.ranks = processes,
                                  .rank = rank,
                                  .dtype = RA_F32,
                                  .length = b->length,
                                  .planned = stats_integer(r, "planned_peak_bytes"),
                                  .accounted = stats_integer(r, "peak_bytes"),
                                  .resident = stats_integer(r, "rss_peak_bytes")};
        if (idle)
            rows[rank].resident_bound = rows[rank].planned + idle[rank] + MPI_BYTES;
        row.resident_bytes = rows[rank].resident > row.resident_bytes ? rows[rank].resident : row.resident_bytes;
    }
    int failed = check_output(b, &row);
    if (idle)
        add_row(b, &rows[0], &row, "processes");
    json_decref(statistics);
    return failed;
}

/* ---- Printing ---------------------------------------------------------------------------------------------------- */

static double mib(int64_t bytes)
{
    return (double)bytes / (double)MIB;
}

static void print_head(const char *first, const char *last)
{
    printf("%5s %-8s %10s %10s %10s %10s %10s   %s\n", first, "dtype", "planned", "accounted", "bound", "VmHWM", last,
           "holds");
}

static void print_figure(int64_t bytes)
{
    if (bytes)
        printf(" %10.2f", mib(bytes));
    else
        printf(" %10s", "-");
}

static void print_row(memory_bench *b, const memory_row *r)
{
    bool bound = within_bound(r), plan = as_planned(r), resident = resident_holds(r);
    printf("%5d %-8s", r->rank < 0 ? r->ranks : r->rank, ra_dtype_name(r->dtype));
    print_figure(r->planned);
    print_figure(r->accounted);
    print_figure(r->bound);
    print_figure(r->resident);
    print_figure(r->resident_bound);
    printf("   %s%s%s%s\n", bound && plan && resident ? "yes" : "NO:", bound ? "" : " past the bound",
           plan ? "" : " not 0.9 .. 1 of the plan", resident ? "" : " the process is too large");
    fflush(stdout);
    b->wrong += !(bound && plan && resident);
}

/* ---- How it goes with R and with the length ---------------------------------------------------------------------- */

/* What a rank holds whatever R or the length is, and the slope of the rest in logarithms. */
static bool slope_of(const memory_row *rows, int count, bool planned, bool over_ranks, double *fixed, fit *slope)
{
    double share[MOST_POINTS], bytes[MOST_POINTS], log_x[MOST_POINTS], log_rest[MOST_POINTS];
    for (int i = 0; i < count; i++) {
        share[i] = (double)rows[i].length / rows[i].ranks;
        bytes[i] = (double)(planned ? rows[i].planned : rows[i].accounted);
    }
    *fixed = fit_line(share, bytes, count).intercept;
    for (int i = 0; i < count; i++) {
        if (bytes[i] <= *fixed)
            return false;
        log_x[i] = log(over_ranks ? rows[i].ranks : (double)rows[i].length);
        log_rest[i] = log(bytes[i] - *fixed);
    }
    *slope = fit_line(log_x, log_rest, count);
    return true;
}

static int64_t least_rows(const memory_row *rows, int count)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < count; i++)
        least = rows[i].length / rows[i].ranks < least ? rows[i].length / rows[i].ranks : least;
    return least;
}

static void print_slope(memory_bench *b, const memory_row *rows, int count, bool planned, bool over_ranks)
{
    const char *what = planned ? "planned" : "accounted", *over = over_ranks ? "R" : "length";
    double fixed, wanted = over_ranks ? SLOPE : -SLOPE;
    fit slope;
    if (count < 3) {
        printf("slope of %s over %s: not with %d points\n\n", what, over, count);
        return;
    }
    bool judged = least_rows(rows, count) >= FITTED_ROWS;
    bool found = slope_of(rows, count, planned, over_ranks, &fixed, &slope);
    bool holds = found && fabs(slope.slope - wanted) <= SLOPE_WITHIN;
    if (found)
        printf("slope of log(%s - %.2f) over log %s: %.4f (95%%: %.4f..%.4f); must be %g within %g: ", what,
               fixed / (double)MIB, over, slope.slope, slope.low, slope.high, wanted, SLOPE_WITHIN);
    else
        printf("slope of %s: none, the fixed part %.2f is as large as a rank; ", what, fixed / (double)MIB);
    if (judged)
        printf("%s\n\n", holds ? "yes" : "NO");
    else
        printf("not judged below %d rows a rank\n\n", FITTED_ROWS);
    b->wrong += judged && !holds;
}

/* ---- The suite --------------------------------------------------------------------------------------------------- */

static int show_plans(memory_bench *b)
{
    memory_row rows[RING_COUNT];
    printf("plans, length %d: bound is %d (float16: %d) x length/R x %d x %d x element size + %g MiB; all figures in "
           "MiB\n",
           PLAN_LENGTH, SHORT_FACTOR, LONG_FACTOR, HEADS, DIM, mib(FIXED_BYTES));
    print_head("R", "limit");
    for (int i = 0; i < RING_COUNT; i++) {
        rows[i] = (memory_row){.ranks = RINGS[i], .rank = -1, .dtype = RA_F32, .length = PLAN_LENGTH};
        if (plan_row(b, &rows[i]))
            return 1;
        print_row(b, &rows[i]);
    }
    memory_row half = {.ranks = F16_RANKS, .rank = -1, .dtype = RA_F16, .length = PLAN_LENGTH};
    if (plan_row(b, &half))
        return 1;
    print_row(b, &half);
    print_slope(b, rows, RING_COUNT, true, true);
    return 0;
}

static bool stopped(const memory_bench *b)
{
    return b->options->interrupted();
}

static int show_runs(memory_bench *b)
{
    memory_row rows[RING_COUNT];
    int count = 0;
    if (make_inputs(b, b->length, RA_F32))
        return 1;
    printf("runs, length %lld, full, simulated over files, each in a process of its own; VmHWM's limit is accounted + "
           "%g MiB\n",
           (long long)b->length, mib(PROCESS_BYTES));
    print_head("R", "limit");
    for (int i = 0; i < RING_COUNT && b->length / RINGS[i] >= LEAST_ROWS && !stopped(b); i++, count++) {
        rows[i] = (memory_row){.ranks = RINGS[i], .rank = -1, .dtype = RA_F32, .length = b->length};
        if (run_row(b, &rows[i], true))
            return 1;
        print_row(b, &rows[i]);
    }
    memory_row half = {.ranks = F16_RANKS, .rank = -1, .dtype = RA_F16, .length = b->length};
    if (b->length / F16_RANKS >= LEAST_ROWS && !stopped(b)) {
        if (make_inputs(b, b->length, RA_F16) || run_row(b, &half, true))
            return 1;
        print_row(b, &half);
    }
    print_slope(b, rows, count, false, true);
    return 0;
}

/* A ring of one size over lengths that double. */
static int show_lengths(memory_bench *b)
{
    memory_row rows[LENGTH_COUNT];
    int count = 0;
    printf("runs of %d ranks over lengths\n", LENGTH_RANKS);
    print_head("R", "limit");
    for (int64_t length = b->length >> (LENGTH_COUNT - 1); length <= b->length && !stopped(b); length *= 2) {
        memory_row *r = &rows[count];
        *r = (memory_row){.ranks = LENGTH_RANKS, .rank = -1, .dtype = RA_F32, .length = length};
        if (length / LENGTH_RANKS < LEAST_ROWS)
            continue;
        if (make_inputs(b, length, RA_F32) ||
            run_row(b, r, length < b->length || !harness_wanted(b->options, RINGS_PART)))
            return 1;
        print_row(b, r);
        count++;
    }
    print_slope(b, rows, count, false, false);
    return 0;
}

/* The same command with next to nothing to do: what its processes use beside what a plan counts. */
static int measure_idle(memory_bench *b, int processes, int64_t *idle)
{
    memory_row rows[MPI_MOST];
    if (make_inputs(b, IDLE_LENGTH * processes, RA_F32) || run_processes(b, processes, NULL, rows))
        return 1;
    for (int rank = 0; rank < processes; rank++)
        idle[rank] = rows[rank].resident - rows[rank].accounted;
    return 0;
}

static int show_processes(memory_bench *b)
{
    if (!b->command.mpirun[0]) {
        printf("processes: none, %s\n", b->options->mpi ? "no mpirun of the MPI that is built in was found"
                                                        : "this ringattn was built without MPI");
        return 0;
    }
    printf("processes of %s, length %lld; VmHWM's limit is planned + what an idle process of the same job uses + %g "
           "MiB\n",
           b->options->mpi, (long long)b->length, mib(MPI_BYTES));
    for (int processes = 2; processes <= MPI_MOST && !stopped(b); processes++) {
        int64_t idle[MPI_MOST];
        memory_row rows[MPI_MOST];
        if (measure_idle(b, processes, idle) || make_inputs(b, b->length, RA_F32) ||
            run_processes(b, processes, idle, rows))
            return 1;
        printf("%d processes, idle %.2f\n", processes, mib(idle[0]));
        print_head("rank", "limit");
        for (int rank = 0; rank < processes; rank++)
            print_row(b, &rows[rank]);
    }
    return 0;
}

static void clean(const memory_bench *b)
{
    static const char *const NAMES[] = {"q.npy", "k.npy", "v.npy", "o.npy", "s.json"};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        path_of(b, NAMES[i], path);
        unlink(path);
        strncat(path, ".partial", sizeof path - strlen(path) - 1); /* of a run that was killed */
        unlink(path);
    }
    rmdir(b->directory);
}

/* The parts of the suite, in their order, by the names that --only chooses from. */
static const struct {
    const char *name;
    int (*show)(memory_bench *b);
} PARTS[] = {{"plans", show_plans}, {RINGS_PART, show_runs}, {"lengths", show_lengths}, {"processes", show_processes}};
enum { PART_COUNT = sizeof PARTS / sizeof *PARTS };

static int show_parts(memory_bench *b)
{
    int wanted = 0, failed = 0;
    for (int i = 0; i < PART_COUNT && !failed && !stopped(b); i++)
        if (harness_wanted(b->options, PARTS[i].name)) {
            wanted++;
            failed = PARTS[i].show(b);
        }
    return wanted || stopped(b) ? failed : harness_nothing(b->options);
}

int bench_memory(const bench_options *options)
{
    memory_bench b = {.options = options, .pool = {.seed = 1}};
    const char *place = getenv("TMPDIR");
    b.length = options->length ? options->length : options->quick ? QUICK_LENGTH : RUN_LENGTH;
    if (launch_find(&b.command, options->mpi, options->interrupted) || results_open(options, &b.kept))
        return 2;
    int length = snprintf(b.directory, sizeof b.directory, "%s/ringattn-bench-XXXXXX", place ? place : "/tmp");
    if (length >= (int)sizeof b.directory || !mkdtemp(b.directory)) {
        fprintf(stderr, "ringattn bench: %s: no temporary directory: %s\n", place ? place : "/tmp",
                length >= (int)sizeof b.directory ? "the name is too long" : strerror(errno));
        results_close(b.kept);
        return 2;
    }
    int failed = show_parts(&b);
    clean(&b);
    bench_pool_give(&b.pool);
    failed |= results_close(b.kept);
    if (b.wrong)
        fprintf(stderr, "ringattn bench: %d bound%s not hold\n", b.wrong, b.wrong == 1 ? " does" : "s do");
    return failed ? failed : b.wrong ? 1 : 0;
}
