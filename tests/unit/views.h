/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of any strides in memory of their own, for tests that move rows. */
#ifndef UNIT_VIEWS_H
#define UNIT_VIEWS_H

#include "ringattn/ringattn.h"
#include "support/random.h"

typedef struct block {
    ra_tensor view;
    char *memory; /* owned: exactly what the view reaches, each element inside or outside it different */
    int64_t bytes;
} block;

void block_fill(block *b, uint64_t seed);

/* A view of this shape with the axes in any order, gaps between them and some of them backwards. */
block any_view(choices *c, ra_dtype dtype, int64_t batch, int64_t seq, int64_t heads, int64_t dim);

/* A second block like `b`, with the same content; its view points into it. */
block twin(const block *b);

char *element(const ra_tensor *t, int64_t batch, int64_t row, int64_t head, int64_t d);

/* The definition: rows `to_first`... of one view from rows `from_first`... of another. */
void copy_naively(const ra_tensor *to, int64_t to_batch, int64_t to_first, const ra_tensor *from, int64_t from_batch,
                  int64_t from_first, int64_t count);

/* Heads head .. head + count - 1 of a view. */
ra_tensor some_heads(const ra_tensor *t, int64_t head, int64_t count);

/* Reads any rows of any heads, through a view of any strides: they must be those of `whole`, and nothing else changes.
 */
void read_any_range(choices *c, ra_storage *storage, const ra_tensor *whole, uint64_t seed);

#endif
