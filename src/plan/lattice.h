/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lattice is what a dilated branch of attention selects: of every segment of `segment` positions those at offset,
 * offset + rate, offset + 2 rate, ... Its members are numbered from the beginning of the segment that position 0 is in,
 * across segments, so that a branch is attention over consecutive members. With rate 1 a member's number is its
 * position. Positions are those of pattern.h: key 0 is at 0, which need not be where a segment begins.
 */
#ifndef RA_PLAN_LATTICE_H
#define RA_PLAN_LATTICE_H

#include "base/checked.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct ra_lattice {
    int64_t segment, rate, offset; /* 0 <= offset < rate <= segment */
    int64_t members;               /* of a whole segment */
    int64_t shift;                 /* position 0 minus the first position of its segment */
} ra_lattice;

static inline ra_lattice ra_lattice_make(int64_t segment, int64_t rate, int64_t offset)
{
    return (ra_lattice){segment, rate, offset, (segment - offset - 1) / rate + 1, 0};
}

/* All positions, in one segment. */
static inline ra_lattice ra_lattice_all(void)
{
    return ra_lattice_make(INT64_MAX, 1, 0);
}

/* Whether members are numbered as positions are. */
static inline bool ra_lattice_plain(const ra_lattice *l)
{
    return l->rate == 1;
}

static inline int64_t ra_lattice_position(const ra_lattice *l, int64_t member)
{
    if (l->rate == 1)
        return member;
    return member / l->members * l->segment + l->offset + member % l->members * l->rate - l->shift;
}

/* Members at positions below `position`, which is >= -shift unless the lattice is plain. */
static inline int64_t ra_lattice_below(const ra_lattice *l, int64_t position)
{
    if (l->rate == 1)
        return position;
    position += l->shift;
    int64_t inside = position % l->segment - l->offset;
    int64_t below = inside <= 0 ? 0 : (inside - 1) / l->rate + 1;
    return position / l->segment * l->members + ra_min(below, l->members);
}

/* Whether a position is a member. */
static inline bool ra_lattice_has(const ra_lattice *l, int64_t position)
{
    return position >= -l->shift && (position + l->shift) % l->segment % l->rate == l->offset;
}

/* Where the segment begins that a position >= -shift is in. */
static inline int64_t ra_lattice_segment(const ra_lattice *l, int64_t position)
{
    return (position + l->shift) / l->segment * l->segment - l->shift;
}

#endif
