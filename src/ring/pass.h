/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pass goes through all rows of one side of the problem, step by step, while the rows of the other side stay with
 * their ranks. Which side moves, and what travels with a row, is data: a forward pass moves keys and values. The
 * functions are in ring_plan.c.
 */
#ifndef RA_RING_PASS_H
#define RA_RING_PASS_H

#include "plan/traffic.h"

/* Roles: the kinds of rows. A message carries rows of some roles, and a slot has memory for each role. */
typedef enum ra_role {
    RA_ROLE_KEYS,
    RA_ROLE_VALUES,
    RA_ROLE_QUERIES,
    RA_ROLE_OUTPUT_GRADIENTS,
    RA_ROLE_LSE,
    RA_ROLE_DELTA, /* delta: computed from the output and its gradient */
    RA_ROLE_QUERY_SUMS,
    RA_ROLE_KEY_SUMS,
    RA_ROLE_VALUE_SUMS,
    RA_ROLES
} ra_role;

#define RA_BIT(role) (1U << (role))

/* A backward pass over ranks may be two of these. */
enum { RA_PASSES_MOST = 2 };

typedef struct ra_pass {
    const ra_ring_plan *ring;
    ra_side moving;              /* whose rows travel */
    unsigned roles;              /* bits RA_BIT(role): what travels with a row */
    unsigned along;              /* sums of gradients that go along with a row, in messages of their own; 0: none do */
    bool gradient;               /* the pass computes gradients */
    unsigned stays;              /* roles of the rows that stay, in a pass for gradients, */
    unsigned sums;               /* and the sums of their gradients */
    int64_t scratch;             /* of all threads, for any step of a pass for gradients */
    int64_t row_bytes[RA_ROLES]; /* of one position: all batches, and the heads of one plane */
    int64_t chunk_rows;          /* of the largest chunk */
    int64_t ranges;              /* of the rows that stay, on the rank that has most */
    int64_t slot_blocks;         /* words of one plane for any share that rows are marked on */
} ra_pass;

/* The tensor whose rows a role has. */
typedef struct ra_role_shape {
    ra_dtype dtype;
    int64_t heads, dim;
} ra_role_shape;

ra_role_shape ra_role_shape_of(const ra_ring_plan *ring, ra_role role);

static inline bool ra_pass_carries(const ra_pass *pass, int role)
{
    return (pass->roles | pass->along) >> role & 1;
}

/* Who holds the rows that travel, and who holds those that stay. */
const ra_partition *ra_pass_moving(const ra_pass *pass);
const ra_partition *ra_pass_staying(const ra_pass *pass);

/* Bytes of one row: of some roles, for the heads of one plane. */
int64_t ra_pass_row_bytes(const ra_pass *pass, unsigned roles);

/* The rank that is `steps` places before `rank` in the ring. */
int ra_rank_before(const ra_pass *pass, int rank, int64_t steps);

#endif
