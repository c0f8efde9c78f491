/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns: which keys does a query head's query at a global position see, and how often? A pattern is a list of terms
 * that all apply. Text is parsed once; everything after sees integers only. A kind of term is one term_*.c file and one
 * line of the table in pattern.c.
 *
 * Positions inside the library are counted from key 0: key j is at j, and query i at i + plan->offset, which may be
 * before the first key or behind the last. The problem's own position 0 is `origin` positions before key 0; terms that
 * count from there know it. In documents:Q/K a query's index + offset is its place alone: ra_pattern_position says at
 * which position it is. Everything here takes places, and what queries see moves forward with these.
 *
 * Kinds of answers that make up a pattern:
 *     intervals   causal, window, chunks, documents, lengths: the keys [lo, hi) of a position, the same for all heads
 *     branches    dilated: a head's queries and keys are members of lattices, and see each other inside one alone
 *     blocks      block-sparse: pairs of blocks of positions are kept or not, for each head
 *     pairs       mask: single pairs, by index, for each head and batch element
 */
#ifndef RA_PLAN_PATTERN_H
#define RA_PLAN_PATTERN_H

#include "base/parser.h"
#include "plan/blocks.h"
#include "plan/lattice.h"
#include "plan/lengths.h"
#include "plan/mask.h"
#include "plan/ragged.h"

#include <stdbool.h>

/* Keys lo <= k < hi; empty when lo >= hi. */
typedef struct ra_interval {
    int64_t lo, hi;
} ra_interval;

/* How files that a pattern names are read. */
typedef struct ra_pattern_files {
    /*
     * Integers [rows] or [rows, columns], at least one row; of one dimension they have one column. *values is malloc'ed
     * for the caller, also when a failure is returned.
     */
    ra_status (*integers)(const char *path, int64_t **values, int64_t *rows, int64_t *columns);
    /* A mask of blocks, [count][count] or [heads][count][count], as bits: see ra_blocks. The same ownership. */
    ra_status (*mask)(const char *path, int64_t count, int64_t heads, uint64_t **bits, bool *by_head);
    /*
     * A mask of pairs [q_len, kv_len], [heads, q_len, kv_len] or [batch, heads or 1, q_len, kv_len] as bits: see
     * ra_mask. `shape` is batch, heads, q_len, kv_len. The same ownership.
     */
    ra_status (*pairs)(const char *path, const int64_t shape[4], uint64_t **bits, int64_t *batch, int64_t *heads);
} ra_pattern_files;

/* What a pattern is for. */
typedef struct ra_pattern_shape {
    int64_t kv_len, heads;
    int64_t origin; /* positions of the problem before key 0: its key_position */
    int64_t batch, q_len;
    int64_t offset;                              /* place of query 0, counted from key 0 */
    bool placed;                                 /* the problem says so */
    const ra_tensor *documents, *lengths, *mask; /* the caller's arrays, or NULL */
} ra_pattern_shape;

/* What the terms' parsers may need to know: the context of their ra_parser. */
typedef struct ra_pattern_context {
    ra_pattern_shape shape;
    const ra_pattern_files *files;
} ra_pattern_context;

static inline const ra_pattern_context *ra_pattern_context_of(const ra_parser *parser)
{
    return parser->context;
}

typedef struct ra_term ra_term;

typedef struct ra_term_kind {
    const char *name;
    const char *usage; /* how it is written, for messages */
    /* Reads what follows the name; NULL when nothing does. */
    ra_status (*parse)(ra_parser *parser, ra_term *term);
    /* The keys that the query at `position` sees; NULL: not that kind of term. Fast: used to plan and to run. */
    ra_interval (*interval)(const ra_term *term, int64_t position);
    /* The first position after this one where an end of the interval may move by more than one; NULL: there is none. */
    int64_t (*next_jump)(const ra_term *term, int64_t position);
    /*
     * Positions after which the intervals repeat, moved along with the query: 1 if they always do; 0: never. NULL for
     * terms that are no intervals.
     */
    int64_t (*period)(const ra_term *term);
    /* How often that query sees `key`, by the definition: used by the oracle, which shares nothing with the rest. */
    int (*sees)(const ra_term *term, int64_t head, int64_t position, int64_t key);
} ra_term_kind;

enum { RA_BRANCHES = 16 };

/* How a head's branches and their offsets are found. */
typedef enum ra_dilated_mode {
    RA_DILATED_PAPER,
    RA_DILATED_UNION,
    RA_DILATED_GROUPED,
    RA_DILATED_TORCHSCALE
} ra_dilated_mode;

typedef struct ra_dilation {
    int count;
    ra_dilated_mode mode;
    int64_t heads, origin;
    int64_t segment[RA_BRANCHES], rate[RA_BRANCHES];
} ra_dilation;

struct ra_term {
    const ra_term_kind *kind;
    int64_t origin;        /* see above */
    int64_t left, right;   /* window */
    int64_t size;          /* chunks */
    int64_t prefix;        /* causal: positions that see each other */
    int64_t *ends;         /* documents: the position after each one's last; owned */
    int64_t count;         /* of ends */
    ra_dilation *dilation; /* dilated; owned */
    ra_blocks *blocks;     /* blocks; owned */
    ra_ragged *ragged;     /* documents with query lengths of their own; owned */
    ra_lengths *lengths;   /* lengths; owned */
    ra_mask *mask;         /* mask; owned */
    bool from_memory;      /* its numbers are an array of the caller */
};

enum { RA_PATTERN_TERMS = 16 };

typedef struct ra_pattern {
    int64_t kv_len;
    int count;
    ra_term terms[RA_PATTERN_TERMS];
    const ra_dilation *dilation; /* of the one term that has one, or NULL */
    const ra_blocks *blocks;     /* the same */
    const ra_ragged *ragged;     /* the same; then places of queries are not their positions */
    const ra_lengths *lengths;   /* the same */
    const ra_mask *mask;         /* the same */
    int64_t batch;               /* the batch element that this is for: see batch.h */
    int64_t offset;              /* place of its query 0 */
    ra_interval valid;           /* its keys, as far as lengths say */
    bool bounded;                /* some term is an interval that may be less than all keys */
} ra_pattern;

extern const ra_term_kind ra_term_full, ra_term_causal, ra_term_window, ra_term_chunks, ra_term_documents,
    ra_term_ragged, ra_term_lengths, ra_term_mask, ra_term_dilated, ra_term_blocks;

/* Parse `text` for a problem. Clear with ra_pattern_clear, also after a failure. */
ra_status ra_pattern_parse(const char *text, const ra_pattern_shape *shape, const ra_pattern_files *files,
                           ra_pattern *pattern);
void ra_pattern_clear(ra_pattern *pattern);

/* Bytes that its terms hold. */
int64_t ra_pattern_bytes(const ra_pattern *pattern);

/* Whether all terms are intervals: then there is one branch, of all positions, and nothing depends on the head. */
bool ra_pattern_is_interval(const ra_pattern *pattern);

/* Whether two heads see the same. */
bool ra_pattern_same(const ra_pattern *pattern, int64_t head, int64_t other);

/* How often the query at `position` sees `key`, by the definition. */
int ra_pattern_sees(const ra_pattern *pattern, int64_t head, int64_t position, int64_t key);

/* The same for a query of any batch element by its index, at that place. */
int ra_pattern_query_sees(const ra_pattern *pattern, int64_t batch, int64_t query, int64_t place, int64_t head,
                          int64_t key);

/* Whether the query at `position` sees no key at all. */
bool ra_pattern_blind(const ra_pattern *pattern, int64_t head, int64_t position);

/* The position of the query at a place, counted from key 0. */
static inline int64_t ra_pattern_position(const ra_pattern *pattern, int64_t place)
{
    return pattern->ragged ? ra_ragged_at(pattern->ragged, place - pattern->offset).position : place;
}

/*
 * Where the queries from `first` on, and before `end`, stop to be of one packed sequence. What the queries of one see
 * together is an interval; of several of them it has gaps.
 */
static inline int64_t ra_pattern_packed_end(const ra_pattern *pattern, int64_t first, int64_t end)
{
    if (!pattern->ragged)
        return end;
    int64_t packed = ra_ragged_at(pattern->ragged, first - pattern->offset).end;
    return packed < end - pattern->offset ? packed + pattern->offset : end;
}

/* ---- Intervals --------------------------------------------------------------------------------------------------- */

/*
 * The keys that the query at `position` sees, as far as interval terms say. Both ends only move forward from query to
 * query, those of empty intervals too.
 */
ra_interval ra_pattern_interval(const ra_pattern *pattern, int64_t position);

/*
 * The keys that some query at positions first .. first + count - 1 sees, as far as interval terms say. They are an
 * interval, because neighbours' intervals overlap or touch, and both ends of them only move forward. For queries of
 * several packed sequences it is the interval from the first key to the last.
 */
ra_interval ra_pattern_reach(const ra_pattern *pattern, int64_t first, int64_t count);

/* Keys outside of which those queries see none, whatever the head. */
ra_interval ra_pattern_hull(const ra_pattern *pattern, int64_t first, int64_t count);

/*
 * Where the queries from `first` on, and before `end`, stop to see steadily: up to there each end of what they see, as
 * far as interval terms say, stays where it is or moves along with them, and all of them see something or none does.
 */
int64_t ra_pattern_steady_end(const ra_pattern *pattern, int64_t first, int64_t end);

/* ---- Branches ---------------------------------------------------------------------------------------------------- */

/* Branches of a head, and what each of them selects. A row's results in all of them become one softmax. */
int ra_pattern_branches(const ra_pattern *pattern, int64_t head);
ra_lattice ra_pattern_lattice(const ra_pattern *pattern, int64_t head, int branch);

/* Whether a branch leaves out the pairs of earlier ones: each key counts once. */
bool ra_pattern_exclusive(const ra_pattern *pattern, int branch);

/* The members of a lattice that one of them, a query, sees as far as intervals and its segment say. */
ra_interval ra_branch_interval(const ra_pattern *pattern, const ra_lattice *lattice, int64_t member);

/* The same for members first .. first + count - 1 together, count > 0. */
ra_interval ra_branch_reach(const ra_pattern *pattern, const ra_lattice *lattice, int64_t first, int64_t count);

/* Where queries can begin to see keys in a branch: nothing before it takes part. */
int64_t ra_branch_first(const ra_pattern *pattern, const ra_lattice *lattice);

/* Members at positions first <= p < end: as numbers lo .. hi - 1. */
ra_interval ra_branch_members(const ra_lattice *lattice, int64_t first, int64_t end);

/* ---- The other way round: which queries see a key? --------------------------------------------------------------- */

/*
 * Of the members `queries` of a lattice, those that see some of the members `keys`, as far as intervals and segments
 * say. They are an interval, because both ends of what a query sees only move forward. Without a lattice (NULL) both
 * are positions, and interval terms alone are asked.
 */
ra_interval ra_branch_seers(const ra_pattern *pattern, const ra_lattice *lattice, ra_interval keys,
                            ra_interval queries);

/*
 * The same for queries of several packed sequences: runs of those that see some of the keys, in order. Without packed
 * sequences there is one run at most.
 */
typedef struct ra_seers_walk {
    const ra_pattern *pattern;
    const ra_lattice *lattice;
    ra_interval keys, queries; /* still to come */
} ra_seers_walk;

ra_seers_walk ra_seers_begin(const ra_pattern *pattern, const ra_lattice *lattice, ra_interval keys,
                             ra_interval queries);
bool ra_seers_next(ra_seers_walk *walk, ra_interval *seers);

/* Of the positions `queries`, those outside of which none sees a key at positions `keys`, whatever the head. */
ra_interval ra_pattern_seers_hull(const ra_pattern *pattern, ra_interval keys, ra_interval queries);

/* ---- Kinds of terms ---------------------------------------------------------------------------------------------- */

/* For terms that move along with the query everywhere, or nowhere. */
int64_t ra_term_always_repeats(const ra_term *term);
int64_t ra_term_never_repeats(const ra_term *term);

#endif
