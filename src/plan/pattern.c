/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the text of a pattern into terms, and answers for all terms together: intervals, branches, sees. Each term is
 * in term_NAME.c. See pattern.h.
 */
#include "plan/pattern.h"

#include "base/checked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ra_term_kind *const kinds[] = {&ra_term_full,   &ra_term_causal,    &ra_term_window,
                                            &ra_term_chunks, &ra_term_documents, &ra_term_lengths,
                                            &ra_term_mask,   &ra_term_dilated,   &ra_term_blocks};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

int64_t ra_term_always_repeats(const ra_term *term)
{
    (void)term;
    return 1;
}

int64_t ra_term_never_repeats(const ra_term *term)
{
    (void)term;
    return 0;
}

/* ---- Intervals --------------------------------------------------------------------------------------------------- */

/* The interval with both ends inside the keys; an empty interval has equal ends. */
static ra_interval held_within(ra_interval seen, int64_t kv_len)
{
    int64_t lo = ra_max(0, ra_min(seen.lo, kv_len));
    return (ra_interval){lo, ra_max(lo, ra_min(seen.hi, kv_len))};
}

ra_interval ra_pattern_interval(const ra_pattern *pattern, int64_t position)
{
    ra_interval seen = pattern->valid;
    if (pattern->ragged) {
        ra_packed_query at = ra_ragged_at(pattern->ragged, position - pattern->offset);
        seen = (ra_interval){ra_max(seen.lo, at.first_key), ra_min(seen.hi, at.end_key)};
        position = at.position;
    }
    for (int i = 0; i < pattern->count && pattern->bounded; i++) {
        if (!pattern->terms[i].kind->interval)
            continue;
        ra_interval term = pattern->terms[i].kind->interval(&pattern->terms[i], position);
        seen.lo = ra_max(seen.lo, term.lo);
        seen.hi = ra_min(seen.hi, term.hi);
    }
    return held_within(seen, pattern->kv_len);
}

ra_interval ra_pattern_reach(const ra_pattern *pattern, int64_t first, int64_t count)
{
    int64_t last = first + count - 1;
    ra_interval head = ra_pattern_interval(pattern, first), tail = ra_pattern_interval(pattern, last);
    while (head.lo >= head.hi && first < last)
        head = ra_pattern_interval(pattern, ++first);
    while (tail.lo >= tail.hi && last > first)
        tail = ra_pattern_interval(pattern, --last);
    return head.lo < head.hi ? (ra_interval){head.lo, tail.hi} : (ra_interval){0, 0};
}

static int64_t widest_segment(const ra_dilation *d)
{
    int64_t widest = 1;
    for (int i = 0; i < d->count; i++)
        widest = ra_max(widest, d->segment[i]);
    return widest;
}

ra_interval ra_pattern_hull(const ra_pattern *p, int64_t first, int64_t count)
{
    ra_interval hull = ra_pattern_reach(p, first, count);
    int64_t last = first + count - 1;
    if (p->dilation) {
        int64_t widest = widest_segment(p->dilation);
        /* Segments of other branches begin and end less than the widest one's length away. */
        hull.lo = ra_max(hull.lo, ra_add_clamped(first, 1 - widest));
        hull.hi = ra_min(hull.hi, ra_add_clamped(last, widest));
    }
    if (p->blocks && last >= 0) {
        int64_t size = p->blocks->size, reach = ra_blocks_reach(p->blocks);
        int64_t lo = ra_max(0, ra_min(ra_max(first, 0) / size, p->blocks->count) - reach);
        int64_t hi = ra_min(p->blocks->count, ra_add_clamped(last / size, reach) + 1);
        hull.lo = ra_max(hull.lo, lo * size);
        hull.hi = ra_min(hull.hi, hi == p->blocks->count ? p->kv_len : hi * size);
    }
    bool nothing = p->blocks && last < 0;
    return nothing || hull.lo >= hull.hi ? (ra_interval){0, 0} : hull;
}

/* Up to the next jump, ends move by at most one position from one query to the next. So if a bound is constant, or
 * moves with the query, between the ends of a stretch, it does so everywhere in it. */
static bool steady_between(const ra_pattern *p, int64_t first, int64_t last)
{
    ra_interval a = ra_pattern_interval(p, first), b = ra_pattern_interval(p, last);
    int64_t lo = b.lo - a.lo, hi = b.hi - a.hi, moved = last - first;
    return (lo == 0 || lo == moved) && (hi == 0 || hi == moved) && (a.lo < a.hi) == (b.lo < b.hi);
}

int64_t ra_pattern_steady_end(const ra_pattern *p, int64_t first, int64_t end)
{
    int64_t position = ra_pattern_position(p, first);
    end = ra_pattern_packed_end(p, first, end);
    for (int i = 0; i < p->count; i++)
        if (p->terms[i].kind->next_jump) {
            int64_t jump = p->terms[i].kind->next_jump(&p->terms[i], position);
            end = ra_min(end, ra_add_clamped(jump, first - position));
        }
    int64_t steady = first, beyond = end; /* the last query known to be in the stretch; the first one not known to be */
    while (beyond - steady > 1) {
        /* Mostly it is the whole stretch. */
        int64_t middle = beyond == end && steady == first ? end - 1 : steady + (beyond - steady) / 2;
        if (steady_between(p, first, middle))
            steady = middle;
        else
            beyond = middle;
    }
    return steady + 1;
}

/* ---- Heads and branches ------------------------------------------------------------------------------------------ */

bool ra_pattern_is_interval(const ra_pattern *pattern)
{
    return !pattern->dilation && !pattern->blocks && !pattern->mask;
}

bool ra_pattern_same(const ra_pattern *p, int64_t head, int64_t other)
{
    if ((p->blocks && !ra_blocks_same(p->blocks)) || (p->mask && p->mask->heads > 1))
        return head == other;
    int branches = ra_pattern_branches(p, head);
    if (branches != ra_pattern_branches(p, other))
        return false;
    for (int i = 0; i < branches; i++) {
        ra_lattice a = ra_pattern_lattice(p, head, i), b = ra_pattern_lattice(p, other, i);
        if (a.segment != b.segment || a.rate != b.rate || a.offset != b.offset)
            return false;
    }
    return true;
}

/* Mode grouped: the branch of a head. The first heads % count branches have one head more than the others. */
static int branch_of_head(const ra_dilation *d, int64_t head)
{
    int64_t each = d->heads / d->count, more = d->heads % d->count, with_more = more * (each + 1);
    return (int)(head < with_more ? head / (each + 1) : more + (head - with_more) / each);
}

int ra_pattern_branches(const ra_pattern *p, int64_t head)
{
    (void)head;
    return p->dilation && p->dilation->mode != RA_DILATED_GROUPED ? p->dilation->count : 1;
}

ra_lattice ra_pattern_lattice(const ra_pattern *p, int64_t head, int branch)
{
    const ra_dilation *d = p->dilation;
    if (!d)
        return ra_lattice_all();
    int i = d->mode == RA_DILATED_GROUPED ? branch_of_head(d, head) : branch;
    int64_t rate = d->rate[i], offset = head % rate;
    if (d->mode == RA_DILATED_GROUPED)
        offset = i % rate;
    else if (d->mode == RA_DILATED_TORCHSCALE)
        offset = head / ra_ceil_div(d->heads, rate);
    ra_lattice lattice = ra_lattice_make(d->segment[i], rate, offset);
    lattice.shift = d->origin % d->segment[i];
    return lattice;
}

bool ra_pattern_exclusive(const ra_pattern *p, int branch)
{
    return branch > 0 && p->dilation && p->dilation->mode == RA_DILATED_UNION;
}

ra_interval ra_branch_members(const ra_lattice *l, int64_t first, int64_t end)
{
    if (ra_lattice_plain(l))
        return (ra_interval){first, end};
    return (ra_interval){ra_lattice_below(l, ra_max(-l->shift, first)), ra_lattice_below(l, ra_max(-l->shift, end))};
}

int64_t ra_branch_first(const ra_pattern *p, const ra_lattice *l)
{
    return p->blocks ? 0 : p->dilation ? -l->shift : INT64_MIN;
}

/* The keys of the position's segment. For a segment without keys: an empty interval, at the nearer end of the keys. */
static ra_interval keys_of_segment(const ra_pattern *p, const ra_lattice *l, int64_t position)
{
    if (position < -l->shift)
        return (ra_interval){0, 0};
    int64_t segment = ra_lattice_segment(l, position);
    return held_within((ra_interval){segment, ra_add_clamped(segment, l->segment)}, p->kv_len);
}

ra_interval ra_branch_interval(const ra_pattern *p, const ra_lattice *l, int64_t member)
{
    int64_t position = ra_lattice_position(l, member);
    ra_interval seen = ra_pattern_interval(p, position);
    if (p->blocks && ra_blocks_row_at(p->blocks, position) < 0)
        seen.lo = seen.hi = position < 0 ? 0 : p->kv_len;
    if (!p->dilation)
        return seen;
    ra_interval segment = keys_of_segment(p, l, position);
    seen.lo = ra_max(seen.lo, segment.lo);
    seen.hi = ra_max(seen.lo, ra_min(seen.hi, segment.hi));
    return ra_branch_members(l, seen.lo, seen.hi);
}

ra_interval ra_branch_reach(const ra_pattern *p, const ra_lattice *l, int64_t first, int64_t count)
{
    int64_t last = first + count - 1;
    ra_interval head = ra_branch_interval(p, l, first), tail = ra_branch_interval(p, l, last);
    while (head.lo >= head.hi && first < last)
        head = ra_branch_interval(p, l, ++first);
    while (tail.lo >= tail.hi && last > first)
        tail = ra_branch_interval(p, l, --last);
    return head.lo < head.hi ? (ra_interval){head.lo, tail.hi} : (ra_interval){0, 0};
}

/* ---- The other way round ----------------------------------------------------------------------------------------- */

/*
 * The first member of `among` from which on queries see keys behind `key`, or begin to see none before it. Without a
 * lattice, as far as interval terms say.
 */
static int64_t first_past(const ra_pattern *p, const ra_lattice *l, ra_interval among, int64_t key, bool by_begin)
{
    while (among.lo < among.hi) {
        int64_t middle = among.lo + (among.hi - among.lo) / 2;
        ra_interval seen = l ? ra_branch_interval(p, l, middle) : ra_pattern_interval(p, middle);
        if (by_begin ? seen.lo >= key : seen.hi > key)
            among.hi = middle;
        else
            among.lo = middle + 1;
    }
    return among.lo;
}

ra_interval ra_branch_seers(const ra_pattern *p, const ra_lattice *l, ra_interval keys, ra_interval queries)
{
    if (keys.lo >= keys.hi || queries.lo >= queries.hi)
        return (ra_interval){0, 0};
    ra_interval seers = {first_past(p, l, queries, keys.lo, false), first_past(p, l, queries, keys.hi, true)};
    return seers.lo < seers.hi ? seers : (ra_interval){0, 0};
}

ra_seers_walk ra_seers_begin(const ra_pattern *p, const ra_lattice *l, ra_interval keys, ra_interval queries)
{
    if (p->lengths) {
        ra_interval valid = held_within(p->valid, p->kv_len);
        valid = l ? ra_branch_members(l, valid.lo, valid.hi) : valid;
        keys = (ra_interval){ra_max(keys.lo, valid.lo), ra_min(keys.hi, valid.hi)};
    }
    return (ra_seers_walk){p, l, keys, ra_branch_seers(p, l, keys, queries)};
}

/* Queries that see nothing can lie between others: where one packed sequence ends and the next begins, and where
 * lengths hide all keys. */
bool ra_seers_next(ra_seers_walk *w, ra_interval *seers)
{
    const ra_pattern *p = w->pattern;
    *seers = (ra_interval){0, 0};
    while (w->queries.lo < w->queries.hi && seers->lo >= seers->hi) {
        ra_interval keys = w->keys, packed = w->queries;
        if (p->ragged) {
            ra_packed_query at = ra_ragged_at(p->ragged, packed.lo - p->offset);
            packed.hi = ra_pattern_packed_end(p, packed.lo, packed.hi);
            keys = (ra_interval){ra_max(keys.lo, at.first_key), ra_min(keys.hi, at.end_key)};
        }
        *seers = ra_branch_seers(p, w->lattice, keys, packed);
        w->queries.lo = packed.hi;
    }
    return seers->lo < seers->hi;
}

ra_interval ra_pattern_seers_hull(const ra_pattern *p, ra_interval keys, ra_interval queries)
{
    if (keys.lo >= keys.hi)
        return (ra_interval){0, 0};
    if (p->blocks) /* nothing is seen from before key 0 */
        queries.lo = ra_max(queries.lo, 0);
    if (p->dilation) {
        int64_t widest = widest_segment(p->dilation);
        queries.lo = ra_max(queries.lo, ra_add_clamped(keys.lo, 1 - widest));
        queries.hi = ra_min(queries.hi, ra_add_clamped(keys.hi - 1, widest));
    }
    if (p->blocks) {
        int64_t size = p->blocks->size, reach = ra_blocks_reach(p->blocks), last = (keys.hi - 1) / size;
        queries.lo = ra_max(queries.lo, ra_max(0, keys.lo / size - reach) * size);
        if (ra_add_clamped(last, reach) < p->blocks->count)
            queries.hi = ra_min(queries.hi, (last + reach + 1) * size);
    }
    return ra_branch_seers(p, NULL, keys, queries);
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

int ra_pattern_query_sees(const ra_pattern *pattern, int64_t batch, int64_t query, int64_t place, int64_t head,
                          int64_t key)
{
    const ra_lengths *lengths = pattern->lengths;
    int times = 1;
    if (lengths)
        times = key >= ra_lengths_value(lengths, batch, 0) && key < ra_lengths_value(lengths, batch, 1);
    if (times && pattern->mask)
        times = ra_mask_has(pattern->mask, batch, head, query, key);
    if (times && pattern->ragged) {
        ra_packed_query at = ra_ragged_at(pattern->ragged, query);
        times = key >= at.first_key && key < at.end_key;
        place = at.position;
    }
    for (int i = 0; i < pattern->count && times; i++)
        times *= pattern->terms[i].kind->sees(&pattern->terms[i], head, place, key);
    return times;
}

int ra_pattern_sees(const ra_pattern *pattern, int64_t head, int64_t position, int64_t key)
{
    return ra_pattern_query_sees(pattern, pattern->batch, position - pattern->offset, position, head, key);
}

void ra_pattern_clear(ra_pattern *pattern)
{
    for (int i = 0; i < pattern->count; i++) {
        free(pattern->terms[i].ends);
        free(pattern->terms[i].dilation);
        ra_blocks_free(pattern->terms[i].blocks);
        ra_ragged_free(pattern->terms[i].ragged);
        ra_lengths_free(pattern->terms[i].lengths);
        ra_mask_free(pattern->terms[i].mask);
    }
    memset(pattern, 0, sizeof *pattern);
}

int64_t ra_pattern_bytes(const ra_pattern *pattern)
{
    int64_t bytes = 0;
    for (int i = 0; i < pattern->count; i++) {
        const ra_term *t = &pattern->terms[i];
        bytes += t->count * (int64_t)sizeof *t->ends + (t->dilation ? (int64_t)sizeof *t->dilation : 0);
        bytes += (t->blocks ? ra_blocks_bytes(t->blocks) : 0) + (t->ragged ? ra_ragged_bytes(t->ragged) : 0);
        if (t->ragged && t->from_memory) /* a run may have others beside them */
            bytes += ra_ragged_bytes(t->ragged);
        bytes += (t->lengths ? ra_lengths_bytes(t->lengths) : 0) + (t->mask ? ra_mask_bytes(t->mask) : 0);
    }
    return bytes;
}

/* ---- Text -------------------------------------------------------------------------------------------------------- */

static ra_status unknown_term(const ra_parser *p)
{
    char known[1024] = "one of ";
    for (int i = 0; i < KINDS; i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", kinds[i]->usage);
    }
    return ra_parse_expected(p, p->at, known);
}

static ra_status parse_term(ra_parser *p, ra_pattern *pattern)
{
    const char *start = p->at;
    ra_term *term = &pattern->terms[pattern->count++];
    size_t length = ra_parse_name(p);
    for (int i = 0; i < KINDS && !term->kind; i++)
        if (strlen(kinds[i]->name) == length && memcmp(kinds[i]->name, p->at, length) == 0)
            term->kind = kinds[i];
    if (!term->kind)
        return unknown_term(p);
    p->at += length;
    term->origin = ra_pattern_context_of(p)->shape.origin;
    ra_status status = term->kind->parse ? term->kind->parse(p, term) : RA_OK;
    if (status)
        return status;
    if ((term->dilation && pattern->dilation) || (term->blocks && pattern->blocks))
        return ra_parse_expected(p, start, "a term of another kind: there can be one dilated and one blocks term");
    if ((term->ragged && pattern->ragged) || (term->lengths && pattern->lengths) || (term->mask && pattern->mask))
        return ra_parse_expected(
            p, start, "a term of another kind: there can be one documents:Q/K term, one lengths and one mask");
    pattern->dilation = term->dilation ? term->dilation : pattern->dilation;
    pattern->blocks = term->blocks ? term->blocks : pattern->blocks;
    pattern->ragged = term->ragged ? term->ragged : pattern->ragged;
    pattern->lengths = term->lengths ? term->lengths : pattern->lengths;
    pattern->mask = term->mask ? term->mask : pattern->mask;
    pattern->bounded |= term->ragged || term->lengths || (term->kind->interval && term->kind != &ra_term_full);
    if (pattern->ragged && (pattern->dilation || pattern->blocks))
        return ra_parse_expected(p, start,
                                 "no dilated or blocks term beside documents:Q/K with Q other than K: lattices and "
                                 "blocks go by position, and queries of several documents share positions");
    if (pattern->ragged && pattern->lengths && pattern->lengths->columns == 3)
        return ra_parse_expected(p, start,
                                 "no lengths with positions beside documents:Q/K, whose queries are at the end of "
                                 "their keys");
    return RA_OK;
}

/* An array of the caller that no term uses is an error. */
static ra_status check_used(const ra_parser *p, const ra_pattern *pattern, const char *term, const ra_tensor *array)
{
    bool used = !array;
    for (int i = 0; i < pattern->count && !used; i++)
        used = pattern->terms[i].from_memory && strcmp(pattern->terms[i].kind->name, term) == 0;
    if (used)
        return RA_OK;
    return ra_fail(RA_ERROR_ARGUMENT, "score_arrays: %s is given, but pattern \"%.200s\" has no \"%s\" by itself", term,
                   p->text, term);
}

static ra_status check_all_used(const ra_parser *p, const ra_pattern *pattern, const ra_pattern_shape *shape)
{
    ra_status status = check_used(p, pattern, "documents", shape->documents);
    if (!status)
        status = check_used(p, pattern, "lengths", shape->lengths);
    return status ? status : check_used(p, pattern, "mask", shape->mask);
}

ra_status ra_pattern_parse(const char *text, const ra_pattern_shape *shape, const ra_pattern_files *files,
                           ra_pattern *pattern)
{
    const ra_pattern_context context = {*shape, files};
    ra_parser p = {"pattern", text, text, &context};
    memset(pattern, 0, sizeof *pattern);
    pattern->kv_len = shape->kv_len;
    pattern->offset = shape->offset;
    pattern->valid = (ra_interval){0, INT64_MAX};
    for (;;) {
        if (pattern->count == RA_PATTERN_TERMS)
            return ra_parse_expected(&p, p.at, "no more than 16 terms");
        ra_status status = parse_term(&p, pattern);
        if (status)
            return status;
        if (!*p.at)
            return check_all_used(&p, pattern, shape);
        if (*p.at != '+')
            return ra_parse_expected(&p, p.at, "\"+\" or the end");
        p.at++;
    }
}
