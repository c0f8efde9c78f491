/* SPDX-License-Identifier: Apache-2.0 */
/* What scenarios are written with. */
#ifndef TRANSPORT_PEER_H
#define TRANSPORT_PEER_H

#include "transport/scenario.h"

/* Ends the scenario of this rank, and lets the others know. */
#define CHECK(me, condition)                                                                                           \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return failed(me, __func__, __LINE__, #condition);                                                         \
    } while (0)

/* For functions that have said why themselves. */
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        if (!(call))                                                                                                   \
            return false;                                                                                              \
    } while (0)

bool failed(peer *me, const char *function, int line, const char *condition);

enum { SEGMENTS_MOST = 8 };

/* A message in memory, with guards around each of its segments. */
typedef struct parcel {
    ra_segment segments[SEGMENTS_MOST];
    int64_t count, bytes;
    unsigned char *block;
    int64_t block_bytes;
} parcel;

/* `cut` 0: one segment; else it decides where the cuts are. */
parcel *make_parcel(peer *me, int64_t bytes, uint64_t cut);
void fill(parcel *p, int maker, int to, int tag, int64_t n);
bool holds(const parcel *p, int maker, int to, int tag, int64_t n);

/* Start it; a sent parcel is filled, as the n-th with this tag to that rank. */
bool begin_send(peer *me, int to, int tag, int64_t n, parcel *p);
bool begin_receive(peer *me, int from, int tag, parcel *p);

/* One call of progress, which has to succeed; then a short sleep, for there are fewer cores than ranks. */
bool turn(peer *me, ra_transport_state *found);
bool finish_all(peer *me);

/* Until `condition`, which may use `found`, holds after a turn; for a minute at most. */
#define POLL(me, found, condition)                                                                                     \
    do {                                                                                                               \
        double end_ = seconds() + 60;                                                                                  \
        do {                                                                                                           \
            CHECK(me, seconds() < end_);                                                                               \
            TRY(turn(me, found));                                                                                      \
        } while (!(condition));                                                                                        \
    } while (0)

void tell(peer *me, int to);
void tell_others(peer *me);
bool is_told(peer *me);
void nap(void);
double seconds(void);

/* Waits to be told so many times, without a call to the transport. */
bool await(peer *me, int times);

static inline int right_of(const peer *me)
{
    return (me->transport.rank + 1) % me->transport.ranks;
}

static inline int left_of(const peer *me)
{
    return (me->transport.rank + me->transport.ranks - 1) % me->transport.ranks;
}

#endif
