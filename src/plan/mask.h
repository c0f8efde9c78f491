/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Masks of single pairs: whether a query may see a key, both by index, perhaps for each head and batch element. From a
 * file they are bits, 64 keys in a word; in the caller's memory they are booleans with strides, read where they are.
 */
#ifndef RA_PLAN_MASK_H
#define RA_PLAN_MASK_H

#include "base/status.h"

#include <stdbool.h>

typedef struct ra_mask {
    int64_t batch, heads; /* 1: the same for all */
    int64_t q_len, kv_len;
    uint64_t *bits; /* [batch][heads][q_len][words], none set from kv_len on; owned; NULL: */
    int64_t words;
    ra_tensor array; /* booleans, 0 or 1 */
} ra_mask;

/* Keys first .. first + 63 of a row, `first` a multiple of 64, as bits; none is set from kv_len on. */
uint64_t ra_mask_word(const ra_mask *mask, int64_t batch, int64_t head, int64_t query, int64_t first);

/* Ask for the booleans of that many words, which are read soon. */
void ra_mask_fetch(const ra_mask *mask, int64_t batch, int64_t head, int64_t query, int64_t first, int64_t words);

/* Whether a query may see a key: by the definition, for the oracle. */
bool ra_mask_has(const ra_mask *mask, int64_t batch, int64_t head, int64_t query, int64_t key);

void ra_mask_free(ra_mask *mask);

int64_t ra_mask_bytes(const ra_mask *mask);

#endif
