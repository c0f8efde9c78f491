/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transport.h - how bytes move between ranks. The library brings two transports (ra_comm_sim, ra_comm_threads), and
 * <ringattn/mpi.h> a third; this is what one looks like, for whoever has a network of their own.
 *
 * A transport moves bytes and knows no attention. It belongs to one rank and is used by one thread at a time. No
 * function waits: an operation is started, and `progress` moves what can be moved. Every function may fail with a
 * status and a message (ra_transport_fail); after a failure the communicator is not used again, only closed.
 *
 * Between two ranks, operations with the same tag (0 .. 32767) are matched in the order in which they were started. The
 * memory of an operation, and its array of segments, belong to the transport until it is finished.
 */
#ifndef RINGATTN_TRANSPORT_H
#define RINGATTN_TRANSPORT_H

#include <ringattn/ringattn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A piece of memory. A message is a list of them, one after the other; sender and receiver may cut it differently. */
typedef struct ra_segment {
    void *at;
    int64_t bytes;
} ra_segment;

enum { RA_SHARED_BYTES = 64 };

/* What a rank tells all others out of turn. */
typedef enum ra_notice_kind {
    RA_NOTICE_NONE = 0,
    RA_NOTICE_FAILED = 1, /* the sender has failed: `text` says why */
    RA_NOTICE_LEFT = 2    /* the sender has closed its communicator */
} ra_notice_kind;

typedef struct ra_notice {
    int32_t kind;   /* an ra_notice_kind */
    int32_t rank;   /* who sent it */
    int32_t status; /* an ra_status: what it failed with */
    char text[244];
} ra_notice;

/* What `progress` found. */
typedef struct ra_transport_state {
    int64_t unfinished; /* operations that have been started and not finished */
    int waiting_for;    /* of the ranks that those wait for, the one silent for longest; -1: none */
    double silent;      /* seconds since it was last heard of */
    ra_notice notice;   /* the first notice that came in; kind RA_NOTICE_NONE: none */
    int quietest; /* of those that show this rank life, waited for or not, the most silent; -1: none, or not known */
    double quiet; /* seconds since that one was last heard of */
} ra_transport_state;

typedef struct ra_transport {
    size_t size;      /* sizeof(ra_transport) */
    const char *name; /* "threads", "mpi", ... */
    int rank, ranks;
    /*
     * NULL, or where an address of one rank can be read by all others: RA_SHARED_BYTES for each rank, zero at first,
     * common to all ranks until the last one closes.
     */
    void *shared;
    void *state; /* the first argument of every function */

    /* Start to receive or send a message of the segments' bytes; none at all is a message too. */
    ra_status (*receive)(void *state, int from, int tag, const ra_segment *segments, int64_t count);
    ra_status (*send)(void *state, int to, int tag, const ra_segment *segments, int64_t count);

    /*
     * Move what can be moved, and show life: to those that wait for this rank and, so that each rank is watched at all
     * times, to one or more others. Called again and again while a rank computes and while it waits, some thousand
     * times a second, and cheap when there is nothing to do. A message whose length differs from what its receiver
     * expects is a failure.
     */
    ra_status (*progress)(void *state, ra_transport_state *found);

    /* Tell all others, as far as they can still be told. */
    void (*notify)(void *state, const ra_notice *notice);

    /*
     * After a failure: give up all operations that are not finished. 1: their memory will not be touched again; 0: it
     * may be, so its owner leaves it alone for ever.
     */
    int (*abandon)(void *state);

    /* Free; operations that are not finished are given up, and the others are told RA_NOTICE_LEFT. */
    void (*close)(void *state);
} ra_transport;

/* A communicator over a transport of the caller's own, which it closes when it is freed. */
RA_API ra_status ra_comm_custom(const ra_transport *transport, ra_comm **comm);

/* For transports: set the message of the calling thread and return `status`. */
RA_API ra_status ra_transport_fail(ra_status status, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

#ifdef __cplusplus
}
#endif

#endif
