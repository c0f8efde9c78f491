/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accounted memory. One accountant belongs to one run: every byte the run holds goes through it, so that its peak can
 * be compared with the plan.
 */
#ifndef RA_BASE_MEMORY_H
#define RA_BASE_MEMORY_H

#include "base/status.h"

typedef struct ra_accountant {
    int64_t bytes; /* held now */
    int64_t peak;
} ra_accountant;

/* What ra_memory_take really accounts for `bytes`: rounded up so that blocks start on their own cache lines. */
int64_t ra_memory_rounded(int64_t bytes);

/* Rounded up to pages of 4 KiB: for what is accounted for as a whole, and whose exact size says nothing. */
int64_t ra_memory_pages(int64_t bytes);

/* 64-byte aligned, uninitialised memory; `what` names it in the message. *block is NULL after a failure. */
ra_status ra_memory_take(ra_accountant *accountant, int64_t bytes, const char *what, void **block);
void ra_memory_give(ra_accountant *accountant, void *block, int64_t bytes);

/*
 * A block that somebody else is done with becomes one of `bytes` bytes, on the same pages as far as they reach: a page
 * that is new to a process costs more than many a use of it. *block may be NULL, with `had` 0; after a failure it is.
 */
ra_status ra_memory_renew(ra_accountant *accountant, int64_t bytes, const char *what, void **block, int64_t had);

/*
 * What a run held, for the next one like it: a block of each of its kinds. Between runs no account counts it.
 */
enum { RA_SPARE_BLOCKS = 9 };
typedef struct ra_spare {
    void *block[RA_SPARE_BLOCKS];
    int64_t bytes[RA_SPARE_BLOCKS];
} ra_spare;

/* One of its blocks, and all: given back to the system. */
void ra_spare_drop(ra_spare *spare, int index);
void ra_spare_free(ra_spare *spare);

/* The largest resident size that this process has had, by the operating system; 0: unknown. */
int64_t ra_memory_resident_peak(void);

#endif
