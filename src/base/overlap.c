/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two views share a byte if and only if
 *     address of a + sum of (index * stride) + byte of an element = the same for b
 * has a solution in integers, each index between 0 and its extent - 1. All strides are made positive, and the question
 * becomes: do x_i exist with 0 <= x_i <= most_i and the sum of step_i * x_i equal to a goal?
 *
 * Terms that together reach every multiple of the smaller step are merged into one, which makes a dense array a single
 * term. The others are searched from the largest step down. For each x_i, the
 * smaller terms can only add up to an interval of values, and only to multiples of their greatest common divisor there.
 */
#include "base/overlap.h"

#include "base/checked.h"
#include "base/tensor.h"

#include <stdlib.h>

enum { TERMS = 10, MOST_TRIED = 1 << 20 };

/* Sums of bytes of two address spaces. */
__extension__ typedef __int128 wide;

typedef struct term {
    int64_t step, most;
} term;

typedef struct equation {
    term terms[TERMS];
    int count;
    wide goal;
} equation;

/* ---- The equation ------------------------------------------------------------------------------------------------ */

/*
 * Adds size * stride * x, 0 <= x <= most, to the left side; if the stride is negative, x counts from the other end. The
 * stride of a single element may be anything.
 */
static void add_term(equation *e, int64_t size, int64_t stride, int64_t most)
{
    if (stride == 0 || most == 0)
        return;
    int64_t step = size * stride;
    if (step < 0)
        e->goal += (wide)-step * most;
    e->terms[e->count++] = (term){step < 0 ? -step : step, most};
}

/* The addresses of a view's elements, `sign` times. */
static void add_view(equation *e, const ra_tensor *t, int64_t size, int sign)
{
    add_term(e, sign * size, t->batch_stride, t->batch - 1);
    add_term(e, sign * size, t->seq_stride, t->seq - 1);
    add_term(e, sign * size, t->head_stride, t->heads - 1);
    add_term(e, sign * size, t->dim_stride, t->dim - 1);
}

static int by_step(const void *a, const void *b)
{
    int64_t x = ((const term *)a)->step, y = ((const term *)b)->step;
    return (x < y) - (x > y);
}

/* Whether the smaller term fills the gaps of the larger one; if so it takes it over. */
static bool take_over(term *small, const term *large)
{
    int64_t times = large->step / small->step, more, most;
    if (large->step % small->step != 0 || small->most < times - 1)
        return false;
    if (!ra_mul_ok(times, large->most, &more) || !ra_add_ok(small->most, more, &most))
        return false;
    small->most = most;
    return true;
}

/* Largest step first, and as few terms as can be. */
static void merge_terms(equation *e)
{
    qsort(e->terms, (size_t)e->count, sizeof *e->terms, by_step);
    for (int small = e->count - 1; small > 0; small--)
        for (int large = small - 1; large >= 0; large--)
            if (take_over(&e->terms[small], &e->terms[large])) {
                for (int i = large; i + 1 < e->count; i++)
                    e->terms[i] = e->terms[i + 1];
                e->count--;
                small = e->count; /* it may fill more gaps now: from the smallest on again */
                break;
            }
}

/* ---- The search -------------------------------------------------------------------------------------------------- */

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* x with a x = 1 modulo m; a and m have no common divisor. */
static int64_t inverse(int64_t a, int64_t m)
{
    int64_t x = 1, next_x = 0, rest = m;
    while (rest) {
        int64_t times = a / rest, next_rest = a % rest, before = x - times * next_x;
        a = rest;
        rest = next_rest;
        x = next_x;
        next_x = before;
    }
    return (x % m + m) % m;
}

/* The values of one term that are still to be tried: next, next + apart, ..., up to last. */
typedef struct candidates {
    wide goal; /* of this term and the smaller ones */
    int64_t next, last, apart;
} candidates;

/* What the terms after one can add up to, and the step that all their sums are multiples of. */
typedef struct rest {
    wide most;
    int64_t step;
} rest;

static candidates candidates_of(const term *t, const rest *after, wide goal)
{
    const candidates none = {goal, 1, 0, 1};
    wide least = goal > after->most ? (goal - after->most + t->step - 1) / t->step : 0, last = goal / t->step;
    if (last > t->most)
        last = t->most;
    if (goal < 0 || least > last)
        return none;
    if (after->step == 0) /* the last term */
        return goal % t->step == 0 ? (candidates){goal, (int64_t)least, (int64_t)last, 1} : none;
    int64_t common = gcd(t->step, after->step), apart = after->step / common;
    if (goal % common != 0)
        return none;
    wide remainder = (wide)(int64_t)(goal / common % apart) * inverse(t->step / common % apart, apart) % apart;
    wide first = least + ((remainder - least) % apart + apart) % apart;
    return first > last ? none : (candidates){goal, (int64_t)first, (int64_t)last, apart};
}

static void find_rests(const equation *e, rest after[TERMS])
{
    rest r = {0, 0};
    for (int i = e->count - 1; i >= 0; i--) {
        after[i] = r;
        r.most += (wide)e->terms[i].step * e->terms[i].most;
        r.step = gcd(e->terms[i].step, r.step);
    }
}

static ra_overlap solve(equation *e)
{
    candidates at[TERMS];
    rest after[TERMS];
    int depth = 0;
    merge_terms(e);
    if (e->count == 0)
        return e->goal == 0 ? RA_OVERLAPPING : RA_APART;
    find_rests(e, after);
    at[0] = candidates_of(&e->terms[0], &after[0], e->goal);
    for (int tried = 0; depth >= 0; tried++) {
        candidates *c = &at[depth];
        if (tried > MOST_TRIED)
            return RA_TANGLED;
        if (c->next > c->last) {
            depth--;
            continue;
        }
        if (depth == e->count - 1)
            return RA_OVERLAPPING;
        wide left = c->goal - (wide)e->terms[depth].step * c->next;
        c->next = ra_add_clamped(c->next, c->apart);
        depth++;
        at[depth] = candidates_of(&e->terms[depth], &after[depth], left);
    }
    return RA_APART;
}

/* ---- Views ------------------------------------------------------------------------------------------------------- */

static bool is_empty(const ra_tensor *t)
{
    return t->batch == 0 || t->seq == 0 || t->heads == 0 || t->dim == 0;
}

/* The first byte of a view and the one behind its last. */
typedef struct extent {
    wide first, end;
} extent;

static extent extent_of(const ra_tensor *t)
{
    const int64_t strides[] = {t->batch_stride, t->seq_stride, t->head_stride, t->dim_stride};
    const int64_t extents[] = {t->batch, t->seq, t->heads, t->dim};
    wide size = (wide)ra_dtype_size(t->dtype), first = (wide)(uintptr_t)t->data;
    extent e = {first, first + size};
    for (int i = 0; i < 4; i++) {
        wide bytes = extents[i] > 1 ? size * strides[i] * (extents[i] - 1) : 0;
        *(bytes < 0 ? &e.first : &e.end) += bytes;
    }
    return e;
}

ra_overlap ra_tensors_overlap(const ra_tensor *a, const ra_tensor *b)
{
    int64_t a_size = (int64_t)ra_dtype_size(a->dtype), b_size = (int64_t)ra_dtype_size(b->dtype);
    if (is_empty(a) || is_empty(b))
        return RA_APART;
    extent of_a = extent_of(a), of_b = extent_of(b); /* most views lie one behind the other */
    if (of_a.end <= of_b.first || of_b.end <= of_a.first)
        return RA_APART;
    equation e = {.goal = (wide)(uintptr_t)b->data - (wide)(uintptr_t)a->data};
    add_view(&e, a, a_size, 1);
    add_view(&e, b, b_size, -1);
    add_term(&e, 1, 1, a_size - 1);
    add_term(&e, -1, 1, b_size - 1);
    return solve(&e);
}

/* Whether each dimension steps over all that the ones with smaller strides reach, as in every dense array. */
static bool is_nested(const int64_t strides[4], const int64_t extents[4])
{
    bool counted[4] = {false};
    wide reach = 0;
    for (int round = 0; round < 4; round++) {
        int next = -1;
        for (int i = 0; i < 4; i++)
            if (!counted[i] && extents[i] > 1 && (next < 0 || llabs(strides[i]) < llabs(strides[next])))
                next = i;
        if (next < 0)
            return true;
        if (llabs(strides[next]) <= reach)
            return false;
        reach += (wide)llabs(strides[next]) * (extents[next] - 1);
        counted[next] = true;
    }
    return true;
}

ra_overlap ra_tensor_overlaps_itself(const ra_tensor *t)
{
    const int64_t strides[] = {t->batch_stride, t->seq_stride, t->head_stride, t->dim_stride};
    const int64_t extents[] = {t->batch, t->seq, t->heads, t->dim};
    if (is_empty(t) || is_nested(strides, extents))
        return RA_APART;
    /* Of two indices that lead to one element, the first that differs may be taken to be larger in the one of them. */
    for (int first = 0; first < 4; first++) {
        if (extents[first] == 1)
            continue;
        equation e = {.goal = -(wide)strides[first]};
        add_term(&e, 1, strides[first], extents[first] - 2);
        for (int i = first + 1; i < 4; i++) {
            add_term(&e, 1, strides[i], extents[i] - 1);
            add_term(&e, -1, strides[i], extents[i] - 1);
        }
        ra_overlap found = solve(&e);
        if (found != RA_APART)
            return found;
    }
    return RA_APART;
}

static ra_status tangled(const char *name)
{
    return ra_fail(RA_ERROR_UNSUPPORTED, "%s: strides so entangled that it is not known whether it shares memory",
                   name);
}

ra_status ra_check_apart(const ra_tensor *const tensors[], const char *const names[], int inputs, int count)
{
    for (int i = inputs; i < count; i++) {
        if (!tensors[i])
            continue;
        ra_overlap found = ra_tensor_overlaps_itself(tensors[i]);
        if (found == RA_OVERLAPPING)
            return ra_fail(RA_ERROR_ARGUMENT,
                           "%s: strides [%lld, %lld, %lld, %lld] lead several of its elements to the same memory",
                           names[i], (long long)tensors[i]->batch_stride, (long long)tensors[i]->seq_stride,
                           (long long)tensors[i]->head_stride, (long long)tensors[i]->dim_stride);
        for (int other = 0; other < i && found == RA_APART; other++) {
            found = tensors[other] ? ra_tensors_overlap(tensors[i], tensors[other]) : RA_APART;
            if (found == RA_OVERLAPPING)
                return ra_fail(RA_ERROR_ARGUMENT, "%s: shares memory with %s: must lie elsewhere", names[i],
                               names[other]);
        }
        if (found == RA_TANGLED)
            return tangled(names[i]);
    }
    return RA_OK;
}
