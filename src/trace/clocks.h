/* clocks -- how far the clocks of the ranks are apart.
 *
 * Ranks under one kernel read the same monotonic clock: apart by exactly 0. For the others rank 0
 * sends a few pings, and the one that came back soonest tells: the answer was given half a round
 * trip ago, within half a round trip.  Source: Cristian, Distributed Computing 3, 1989. */
#ifndef PURLIN_TRACE_CLOCKS_H
#define PURLIN_TRACE_CLOCKS_H

#include <mpi.h>

typedef struct {
    double offset_s;     /* their clock less ours; off by at most half of the round trip */
    double round_trip_s; /* the least that was seen */
} pl_ping;

/** Ping rank r, which meanwhile calls pl_pings_answer(comm, this rank). Polls, yields. */
pl_ping pl_pings_send(MPI_Comm comm, int r);
void pl_pings_answer(MPI_Comm comm, int from);

/** Seconds to subtract from this rank's pl_now_s() to get rank 0's. Collective over comm; polls,
 * yields. Cost: 8 round trips for each rank of another host, one after another. */
double pl_clock_offset_s(MPI_Comm comm);

#endif
