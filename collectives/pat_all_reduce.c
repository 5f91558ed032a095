/* pat_all_reduce -- sum for everyone with few rounds and few bytes, whatever the number of ranks.
 * Idea:   ReduceScatter up all binomial trees at once, then AllGather down them.
 * Order:  as pat_reduce_scatter, each block once: all ranks get the same bits.
 * Cost:   2 ceil(log2 P) rounds, more where parts are full; 2n(P-1)/P elements sent and n(P-1)/P
 *         added when even, where Rabenseifner's loads some ranks twice if P is no power of two;
 *         scratch for a part.
 * Source: as its two halves. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/terms.h"

void pl_pat_all_reduce(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                       int rank)
{
    const pl_collective_call scatter = pl_call_reduce_scatter_half(call);
    const pl_collective_call gather = pl_call_all_gather_half(call);

    pl_pat_reduce_scatter(s, &scatter, site, rank);
    pl_pat_all_gather(s, &gather, site, rank);
}
