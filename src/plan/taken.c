/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs that earlier branches have: see taken.h. */
#include "plan/taken.h"

bool ra_is_taken(const ra_pattern *p, int64_t head, int branch, int64_t position, int64_t other)
{
    bool taken = false;
    for (int i = 0; i < branch && !taken; i++) {
        ra_lattice l = ra_pattern_lattice(p, head, i);
        taken = ra_lattice_has(&l, position) && ra_lattice_has(&l, other) &&
                ra_lattice_segment(&l, other) == ra_lattice_segment(&l, position);
    }
    return taken;
}

/* Rounded down, also below 0. */
static int64_t floor_div(int64_t a, int64_t b)
{
    return a >= 0 ? a / b : -1 - (-1 - a) / b;
}

/* Positions lo <= x < hi that are `position` modulo `modulus`. */
static int64_t positions_like(int64_t position, int64_t lo, int64_t hi, int64_t modulus)
{
    return lo < hi ? floor_div(hi - 1 - position, modulus) - floor_div(lo - 1 - position, modulus) : 0;
}

/* What several branches have in common with a position: lo <= x < hi, a multiple of `modulus` away from it. */
typedef struct common {
    int64_t lo, hi, modulus;
    int next; /* the branch that is to be looked at next */
} common;

/* The same with one more branch, which has the position. */
static common narrower(const common *c, const ra_lattice *l, int64_t position, int next)
{
    int64_t segment = ra_lattice_segment(l, position), modulus;
    if (!ra_mul_ok(c->modulus / ra_gcd(c->modulus, l->rate), l->rate, &modulus))
        modulus = INT64_MAX;
    return (common){ra_max(c->lo, segment), ra_min(c->hi, ra_add_clamped(segment, l->segment)), modulus, next};
}

/*
 * Two positions of a segment that a branch has are a multiple of its rate apart, so what several branches have in
 * common is a multiple of all their rates. Positions of an odd number of earlier branches together are taken away, of
 * an even number added again.
 */
int64_t ra_not_taken(const ra_pattern *p, int64_t head, int branch, int64_t position, int64_t lo, int64_t hi)
{
    common stack[RA_BRANCHES + 1];
    int64_t rate = ra_pattern_lattice(p, head, branch).rate, left = positions_like(position, lo, hi, rate);
    int depth = 0;
    stack[0] = (common){lo, hi, rate, 0};
    while (depth >= 0) {
        int i = stack[depth].next++;
        if (i >= branch) {
            depth--;
            continue;
        }
        ra_lattice l = ra_pattern_lattice(p, head, i);
        if (!ra_lattice_has(&l, position))
            continue;
        common with = narrower(&stack[depth], &l, position, i + 1);
        int64_t shared = positions_like(position, with.lo, with.hi, with.modulus);
        if (shared == 0)
            continue;
        left += depth % 2 ? shared : -shared;
        stack[++depth] = with;
    }
    return left;
}
