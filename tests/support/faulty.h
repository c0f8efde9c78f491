/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transport that does one thing wrong on purpose: it wraps another one, and closes it when it is closed. What it
 * does wrong it does once.
 */
#ifndef SUPPORT_FAULTY_H
#define SUPPORT_FAULTY_H

#include "ringattn/transport.h"

#include <stdatomic.h>

typedef enum fault_kind {
    FAULT_NONE,
    FAULT_DELAY,   /* a send is started only after some more calls of progress; later ones queue behind it */
    FAULT_LOST,    /* a send is never started, and counts as finished */
    FAULT_SHORTER, /* a send lacks its last byte; one without bytes gets one instead */
    FAULT_LONGER,  /* a send has one byte too many */
    FAULT_CLOSE,   /* the transport is closed at an operation; that and all later calls fail with RA_ERROR_PEER */
    FAULT_FAIL     /* an operation fails with RA_ERROR_PEER */
} fault_kind;

/* What a faulty transport has seen; the caller's, so that it can be read at any time and from any thread. */
typedef struct fault_counts {
    atomic_llong sends, operations; /* asked for; operations are sends and receives */
    atomic_llong happened;          /* faults: 0 or 1 */
} fault_counts;

typedef struct fault {
    fault_kind kind;
    int64_t at;           /* the at-th send, for CLOSE and FAIL the at-th operation; the first is 1 */
    int64_t progresses;   /* for DELAY: so many calls of progress later */
    fault_counts *counts; /* may be NULL */
} fault;

/* `outer` takes `inner` over. */
ra_status faulty_wrap(const ra_transport *inner, const fault *what, ra_transport *outer);

#endif
