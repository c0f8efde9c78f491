/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the tasks of a backward pass on threads. Tasks of a chain follow each other through the keys like a wave: a task
 * adds to the sums of a key block when the task before it has left that block, whichever threads run them. So sums are
 * added up in the order of the tasks. What a task does is in gradient_task.c.
 *
 * No deadlock: tasks are claimed in order, and a task waits only for tasks that were claimed before it.
 */
#include "exec/gradient_worker.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/float_mode.h"
#include "base/memory.h"
#include "base/tensor.h"
#include "base/threads.h"
#include "plan/batch.h"
#include "score/scores.h"

#include <omp.h>
#include <sched.h>
#include <string.h>
#include <time.h>

/* ---- Between threads --------------------------------------------------------------------------------------------- */

static bool cancelled(const ra_gradient_shared *shared)
{
    return atomic_load_explicit(&shared->cancelled, memory_order_relaxed);
}

/* From the calling thread alone. */
static void poll(ra_gradient_worker *w, double done)
{
    if (w->calling && w->run->poll && w->run->poll(w->run->poll_user, done))
        atomic_store_explicit(&w->shared->cancelled, 1, memory_order_relaxed);
}

bool ra_gradient_done(ra_gradient_worker *w, double pairs)
{
    w->counts.pairs_visible += pairs;
    if (w->run->poll) {
        int64_t done = atomic_fetch_add_explicit(&w->shared->pairs_done, (int64_t)pairs, memory_order_relaxed);
        poll(w, (double)done + pairs);
    }
    return cancelled(w->shared);
}

/* A moment without work: let others have the core, and poll. */
static void rest(ra_gradient_worker *w, int *turns)
{
    enum { SPINS = 2000 };
    if (++*turns < SPINS) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
        return;
    }
    *turns = 0;
    sched_yield();
    poll(w, (double)atomic_load_explicit(&w->shared->pairs_done, memory_order_relaxed));
}

/* Read the position first: a thread that goes on to another task changes the task before the position. */
static bool has_passed(const ra_claim *claim, int64_t position)
{
    if (!claim->before)
        return true;
    int64_t passed = atomic_load_explicit(&claim->before->position, memory_order_acquire);
    return atomic_load_explicit(&claim->before->task, memory_order_acquire) != claim->task - 1 || passed >= position;
}

bool ra_gradient_wait(ra_gradient_worker *w, const ra_claim *claim, int64_t position)
{
    int turns = 0;
    while (!has_passed(claim, position)) {
        if (cancelled(w->shared))
            return false;
        rest(w, &turns);
    }
    return true;
}

/* ---- Claims ------------------------------------------------------------------------------------------------------ */

/* Turn to the chain that a task is of. */
static int64_t find_chain(ra_gradient_worker *w, int64_t task)
{
    const ra_gradient_run *run = w->run;
    int64_t length;
    while (task - w->chain_first >= (length = ra_chain_tasks(run->work, run->plan, w->chain % run->plan->kv_heads))) {
        w->chain_first += length;
        w->chain++;
    }
    return length;
}

/* The post of the thread that works on a task; NULL: no thread does any more. */
static const ra_post *post_of(const ra_gradient_shared *shared, int64_t task)
{
    for (int i = 0; i < shared->threads; i++)
        if (atomic_load_explicit(&shared->posts[i].task, memory_order_relaxed) == task)
            return &shared->posts[i];
    return NULL;
}

/* The next task, with the one before it; false when there is none. */
static bool claim_next(ra_gradient_worker *w, ra_claim *claim)
{
    ra_gradient_shared *shared = w->shared;
    while (atomic_flag_test_and_set_explicit(&shared->claiming, memory_order_acquire))
        sched_yield();
    claim->task = shared->next_task;
    claim->before = post_of(shared, claim->task - 1);
    bool any = claim->task < w->run->work->tasks && !cancelled(shared);
    if (any) {
        shared->next_task++;
        if (claim->before == w->post) /* this thread itself, which is done with it */
            claim->before = NULL;
        atomic_store_explicit(&w->post->task, claim->task, memory_order_release);
        atomic_store_explicit(&w->post->position, 0, memory_order_release);
    }
    atomic_flag_clear_explicit(&shared->claiming, memory_order_release);
    if (!any)
        return false;
    claim->length = find_chain(w, claim->task);
    claim->chain = w->chain;
    claim->in_chain = claim->task - w->chain_first;
    /* Chains that add to one bias are one wave. */
    if (claim->in_chain == 0 && !ra_array_sums_follow(w->run->array_sums))
        claim->before = NULL;
    return true;
}

/* ---- Chains ------------------------------------------------------------------------------------------------------ */

/* Before the first task of a chain: its slot must be free. */
static bool open_chain(ra_gradient_worker *w, const ra_claim *claim)
{
    int turns = 0;
    if (claim->in_chain > 0 || !w->run->open)
        return true;
    while (w->run->slots &&
           atomic_load_explicit(&w->shared->closed, memory_order_acquire) <= claim->chain - w->run->slots) {
        if (cancelled(w->shared))
            return false;
        rest(w, &turns);
    }
    w->run->open(w->run->chain_user, claim->chain);
    return true;
}

/* After the last task of a chain. Chains are closed in their order. */
static bool close_chain(ra_gradient_worker *w, const ra_claim *claim)
{
    int turns = 0;
    if (claim->in_chain + 1 < claim->length || !w->run->close)
        return true;
    if (!ra_gradient_wait(w, claim, INT64_MAX))
        return false;
    w->run->close(w->run->chain_user, claim->chain);
    while (atomic_load_explicit(&w->shared->closed, memory_order_acquire) < claim->chain) {
        if (cancelled(w->shared))
            return false;
        rest(w, &turns);
    }
    atomic_store_explicit(&w->shared->closed, claim->chain + 1, memory_order_release);
    return true;
}

/* A task works with the plan of its batch element. */
static bool work_task(ra_gradient_worker *w, const ra_claim *claim)
{
    const ra_gradient_run *all = w->run;
    if (!ra_plan_by_batch(all->plan))
        return ra_gradient_task(w, claim);
    ra_gradient_run run = *all;
    ra_plan plan;
    ra_workload work;
    run.plan = ra_plan_of_batch(all->plan, claim->chain / all->plan->kv_heads, &plan);
    run.work = ra_workload_of_batch(all->work, &plan, &work);
    w->run = &run;
    bool done = ra_gradient_task(w, claim);
    w->run = all;
    return done;
}

static void work(ra_gradient_worker *w)
{
    ra_claim claim;
    fenv_t environment;
    ra_floats_enter(&environment, ra_scores_staged(w->run->plan->scores));
    while (claim_next(w, &claim)) {
        if (!open_chain(w, &claim) || !work_task(w, &claim) || !close_chain(w, &claim))
            break;
        /* The next task asks only this one: so a position that this task announces must hold for all tasks before it.
         */
        if (!ra_gradient_wait(w, &claim, INT64_MAX))
            break;
        ra_gradient_passed(w, INT64_MAX);
    }
    ra_floats_leave(&environment);
}

/* The calling thread has no more tasks, but others still work: it goes on polling. */
static void wait_for_others(ra_gradient_worker *w)
{
    const struct timespec moment = {0, 50000};
    while (atomic_load_explicit(&w->shared->working, memory_order_acquire) > 0 && !cancelled(w->shared)) {
        nanosleep(&moment, NULL);
        poll(w, (double)atomic_load_explicit(&w->shared->pairs_done, memory_order_relaxed));
    }
}

static void hand_in(const ra_gradient_worker *w)
{
    ra_counts *all = w->run->counts;
#pragma omp atomic
    all->tiles += w->counts.tiles;
#pragma omp atomic
    all->pairs_visible += w->counts.pairs_visible;
#pragma omp atomic
    all->pairs_worked += w->counts.pairs_worked;
}

/* Posts lie before the scratch of the workers. */
bool ra_gradient_tasks(ra_gradient_run *run, char *scratch)
{
    const ra_workload *work_load = run->work;
    const ra_gradient_scratch layout = ra_gradient_lay_out_scratch(run->plan, work_load);
    int threads = ra_threads_most(work_load->threads), dynamic = omp_get_dynamic();
    ra_gradient_shared shared = {.claiming = ATOMIC_FLAG_INIT, .posts = (ra_post *)scratch, .threads = threads};
    atomic_init(&shared.working, threads);
    for (int i = 0; i < threads; i++) {
        atomic_init(&shared.posts[i].task, -1);
        atomic_init(&shared.posts[i].position, 0);
    }
    omp_set_dynamic(0); /* OpenMP must not take fewer threads than were asked for */
#pragma omp parallel num_threads(threads)
    {
        int me = omp_get_thread_num();
        ra_gradient_worker worker = {.run = run,
                                     .shared = &shared,
                                     .layout = &layout,
                                     .scratch = (char *)(shared.posts + threads) + me * layout.bytes,
                                     .post = &shared.posts[me],
                                     .calling = me == 0};
        if (run->array_sums)
            memset(worker.scratch + layout.array_sums, 0, (size_t)layout.array_sum_bytes);
        if (me == 0) {
            run->counts->threads = omp_get_num_threads();
            atomic_fetch_sub(&shared.working, threads - omp_get_num_threads());
        }
        work(&worker);
        atomic_fetch_sub_explicit(&shared.working, 1, memory_order_release);
        if (me == 0 && run->poll)
            wait_for_others(&worker);
        hand_in(&worker);
    }
    omp_set_dynamic(dynamic);
    return !cancelled(&shared);
}
