/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of batch elements. See batch.h. */
#include "plan/batch.h"

#include "base/checked.h"

int64_t ra_plan_offset(const ra_plan *p, int64_t batch)
{
    const ra_lengths *l = p->pattern.lengths;
    return l && l->columns == 3 ? ra_lengths_value(l, batch, 2) - p->key_position : p->offset;
}

const ra_plan *ra_plan_of_batch(const ra_plan *p, int64_t batch, ra_plan *copy)
{
    if (!ra_plan_by_batch(p))
        return p;
    *copy = *p;
    copy->offset = copy->pattern.offset = ra_plan_offset(p, batch);
    copy->pattern.batch = batch;
    const ra_lengths *l = p->pattern.lengths;
    if (l)
        copy->pattern.valid = (ra_interval){ra_lengths_value(l, batch, 0), ra_lengths_value(l, batch, 1)};
    return copy;
}

const ra_workload *ra_workload_of_batch(const ra_workload *w, const ra_plan *element, ra_workload *copy)
{
    if (w->grouping.offset == element->offset)
        return w;
    *copy = *w;
    copy->grouping.offset = element->offset;
    return copy;
}

bool ra_plan_same_element(const ra_plan *p, int64_t batch, int64_t other)
{
    const ra_lengths *l = p->pattern.lengths;
    bool same = batch == other || !p->pattern.mask || p->pattern.mask->batch == 1;
    for (int column = 0; l && column < l->columns; column++)
        same &= ra_lengths_value(l, batch, column) == ra_lengths_value(l, other, column);
    return same;
}

int ra_plan_sees(const ra_plan *p, int64_t batch, int64_t head, int64_t query, int64_t key)
{
    return ra_pattern_query_sees(&p->pattern, batch, query, query + ra_plan_offset(p, batch), head, key);
}

static ra_interval united(ra_interval a, ra_interval b)
{
    if (a.lo >= a.hi || b.lo >= b.hi)
        return a.lo < a.hi ? a : b;
    return (ra_interval){ra_min(a.lo, b.lo), ra_max(a.hi, b.hi)};
}

ra_interval ra_plan_hull_of(const ra_plan *p, int64_t batch, int64_t first, int64_t end)
{
    ra_plan copy;
    p = ra_plan_of_batch(p, batch, &copy);
    return ra_pattern_hull(&p->pattern, first + p->offset, end - first);
}

ra_interval ra_plan_hull(const ra_plan *p, int64_t first, int64_t end)
{
    ra_interval hull = {0, 0};
    for (int64_t batch = 0; batch < ra_plan_elements(p); batch++)
        hull = united(hull, ra_plan_hull_of(p, batch, first, end));
    return hull;
}

ra_interval ra_plan_seers_hull(const ra_plan *p, int64_t first, int64_t end)
{
    ra_interval hull = {0, 0};
    for (int64_t batch = 0; batch < ra_plan_elements(p); batch++) {
        ra_plan copy;
        const ra_plan *e = ra_plan_of_batch(p, batch, &copy);
        const ra_interval queries = {e->offset, e->offset + e->q_len};
        ra_interval seers = ra_pattern_seers_hull(&e->pattern, (ra_interval){first, end}, queries);
        hull = united(hull, (ra_interval){seers.lo - e->offset, seers.hi - e->offset});
    }
    return hull;
}

ra_status ra_plan_check_unchanged(const ra_plan *p)
{
    bool lengths = p->pattern.lengths && ra_lengths_changed(p->pattern.lengths);
    if (!lengths && !(p->pattern.ragged && ra_ragged_changed(p->pattern.ragged)))
        return RA_OK;
    return ra_fail(RA_ERROR_ARGUMENT,
                   "%s: the array has changed since the plan was made: a run over ranks needs a plan of its own",
                   lengths ? "lengths" : "documents");
}
