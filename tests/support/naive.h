/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns from the words of their definition, pair by pair: nothing here is the library's. Random blocks are the one
 * thing that a definition cannot say from outside; texts that have them are not for this.
 */
#ifndef SUPPORT_NAIVE_H
#define SUPPORT_NAIVE_H

#include <stdbool.h>
#include <stdint.h>

enum { NAIVE_TERMS = 8, NAIVE_NUMBERS = 16 };

typedef struct naive_term {
    char name[16], mode[16];
    int count; /* of numbers: lengths of documents, sides of a window, segments of branches, the size of blocks */
    int64_t number[NAIVE_NUMBERS], rate[NAIVE_NUMBERS];
    int64_t local, global, stride, prefix;
    bool slashed; /* numbers are Q/K: query lengths, and key lengths in `rate` */
} naive_term;

typedef struct naive_pattern {
    int64_t kv_len, heads;
    int64_t key_position; /* 0 unless it is set afterwards */
    int count;
    naive_term terms[NAIVE_TERMS];
    const uint8_t *mask; /* of a blocks term: NULL, or [heads or 1][blocks][blocks] */
    bool mask_by_head;
} naive_pattern;

/* Fails the test for a text that it cannot read. A mask's file is not read: set `mask` afterwards. */
naive_pattern naive_read(const char *text, int64_t kv_len, int64_t heads);

/* The dilated term of a text alone; false, and no term, when it has none. */
bool naive_read_dilated(const char *text, int64_t kv_len, int64_t heads, naive_pattern *pattern);

/* How often a head's query at a position, counted from key 0, sees a key. */
int naive_sees(const naive_pattern *pattern, int64_t head, int64_t position, int64_t key);

/* The same for a query by its index, of q_len: documents:Q/K have it at the end of its document's keys. */
int naive_query_sees(const naive_pattern *pattern, int64_t q_len, int64_t head, int64_t query, int64_t key);

/* Whether one branch of a dilated term has both, by their positions; a branch that is not the head's has nothing. */
bool naive_in_branch(const naive_term *dilated, int64_t heads, int branch, int64_t head, int64_t position, int64_t key);

#endif
