/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that transports share: checks of an operation's arguments, and the length of its message. */
#ifndef RA_TRANSPORT_MESSAGE_H
#define RA_TRANSPORT_MESSAGE_H

#include "base/status.h"
#include "ringattn/transport.h"

/* The largest tag that every MPI supports. All transports have this limit. */
enum { RA_TAG_MOST = 32767 };

/* `verb` ("receive from", "send to") is for the message. */
ra_status ra_message_check(const char *verb, int peer, int ranks, int tag, const ra_segment *segments, int64_t count,
                           int64_t *bytes);

#endif
