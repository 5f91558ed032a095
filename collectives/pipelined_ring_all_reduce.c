/* pipelined_ring_all_reduce -- a ring that adds while it transfers.
 * Idea:   ReduceScatter in chunks, of which one is added while the next flies, then AllGather
 *         round the ring, in whole blocks, since there is nothing to add.
 * Order:  block b adds ranks b+1, b+2, ..., b (mod P), once: all ranks get the same bits.
 * Cost:   (P-1)(K+1) rounds for K chunks a block, 2n(P-1)/P elements sent when even, n(P-1)/P
 *         added, all but a chunk of it while messages fly; scratch for two chunks.
 * Source: as its two halves. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/terms.h"

void pl_pipelined_ring_all_reduce(pl_schedule *s, const pl_collective_call *call,
                                  const pl_site *site, int rank)
{
    const pl_collective_call scatter = pl_call_reduce_scatter_half(call);
    const pl_collective_call gather = pl_call_all_gather_half(call);

    pl_pipelined_ring_reduce_scatter(s, &scatter, site, rank);
    pl_ring_all_gather(s, &gather, site, rank);
}
