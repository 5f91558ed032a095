/* ring_all_reduce -- bandwidth-optimal sum for everyone.
 * Idea:   ReduceScatter round the ring, then AllGather round the ring, in place.
 * Order:  block b adds ranks b+1, b+2, ..., b (mod P), once: all ranks get the same bits.
 * Cost:   2(P-1) rounds, 2n(P-1)/P elements sent, n(P-1)/P added.
 * Source: Patarasuk & Yuan, JPDC 69(2), 2009. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/terms.h"

void pl_ring_all_reduce(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                        int rank)
{
    const pl_collective_call scatter = pl_call_reduce_scatter_half(call);
    const pl_collective_call gather = pl_call_all_gather_half(call);

    pl_ring_reduce_scatter(s, &scatter, site, rank);
    pl_ring_all_gather(s, &gather, site, rank);
}
