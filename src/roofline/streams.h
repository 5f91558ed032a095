/* streams -- what ranks on different hosts send each other that waits for nobody: it leaves when
 * its rank starts it, over the rank's link, one after the other in the order of starts, whether the
 * receiver is there yet or not. The other direction is a stream by itself. Only where every rank is
 * replayed. All functions are local. */
#ifndef PURLIN_ROOFLINE_STREAMS_H
#define PURLIN_ROOFLINE_STREAMS_H

#include "src/roofline/replay.h"

/* Bytes per second that a rank sends and receives; of those that it sends, the ones that it handed
 * on when it started them; and when that changes next. */
typedef struct {
    double sent, received, handed, next_s;
} pl_traffic;

/** Room for what r notes of them; its program must be set. */
void pl_streams_init(const pl_simulation *sim, pl_replay *r);

/** Find out which communications consist of such streams, all that any of their ranks sends
 * (r->is_stream), when moves are matched. */
void pl_streams_find(pl_simulation *sim);

/** Of what r would send in i if it started that now: the bytes that have room before the link, and
 * are handed on at once. 0 where not every rank is replayed. */
double pl_stream_handed_bytes(const pl_simulation *sim, const pl_replay *r, int i);

/** Of its core what r needs to start communication i now: to hand on r->handed_bytes[i], and to
 * copy what has come already. 0 where not every rank is replayed. */
double pl_stream_start_s(const pl_simulation *sim, const pl_replay *r, int i);

/** What r sends in i, which is not a receive, goes over the link from r->begin_s[i] on. */
void pl_stream_begin(pl_simulation *sim, pl_replay *r, int i);

/** When r, which waits for i, has what others send, and has handed on what it sends itself;
 * infinite while one of them has not started it. */
double pl_stream_end_s(const pl_replay *r, int i);

/** Add what flies at now_s, which may not be before r's own time. */
void pl_streams_add(const pl_replay *r, double now_s, pl_traffic *traffic);

#endif
