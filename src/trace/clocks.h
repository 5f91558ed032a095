/* clocks -- how far the clocks of the ranks are apart.
 *
 * Ranks under one kernel read the same monotonic clock: apart by exactly 0. For the others rank 0
 * sends a few pings, and the one that came back soonest tells: the answer was given half a round
 * trip ago, within half a round trip.  Source: Cristian, Distributed Computing 3, 1989. */
#ifndef PURLIN_TRACE_CLOCKS_H
#define PURLIN_TRACE_CLOCKS_H

#include <mpi.h>

/** Seconds to subtract from this rank's pl_now_s() to get rank 0's. Collective over comm; polls,
 * yields. Cost: 8 round trips for each rank of another host, one after another. */
double pl_clock_offset_s(MPI_Comm comm);

#endif
