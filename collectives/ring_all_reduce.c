/* ring_all_reduce -- bandwidth-optimal sum for everyone.
 * Idea:   ReduceScatter round the ring, then AllGather round the ring, in place.
 * Order:  block b adds ranks b+1, b+2, ..., b (mod P), once: all ranks get the same bits.
 * Cost:   2(P-1) rounds, 2n(P-1)/P elements sent, n(P-1)/P added.
 * Source: Patarasuk & Yuan, JPDC 69(2), 2009. */
#include "config.h"

#include "collectives/algorithms.h"

void pl_ring_all_reduce(pl_schedule *s, pl_blocks x, pl_reduction reduction, int rank)
{
    pl_ring_reduce_scatter(s, x, reduction, rank);
    pl_ring_all_gather(s, x, (pl_region){0}, rank);
}
