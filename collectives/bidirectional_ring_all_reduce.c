/* bidirectional_ring_all_reduce -- round the ring both ways at once, half as many rounds.
 * Idea:   ReduceScatter, then AllGather, both ways round the ring.
 * Order:  as bidirectional_ring_reduce_scatter, each block once: all ranks get the same bits.
 * Cost:   P rounds (P-1 when P is odd) of two messages; 2n(P-1)/P elements sent when even, half of
 *         them each way, n(P-1)/P added; scratch for two blocks.
 * Source: as its two halves. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/terms.h"

void pl_bidirectional_ring_all_reduce(pl_schedule *s, const pl_collective_call *call,
                                      const pl_site *site, int rank)
{
    const pl_collective_call scatter = pl_call_reduce_scatter_half(call);
    const pl_collective_call gather = pl_call_all_gather_half(call);

    pl_bidirectional_ring_reduce_scatter(s, &scatter, site, rank);
    pl_bidirectional_ring_all_gather(s, &gather, site, rank);
}
