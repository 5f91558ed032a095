/* rabenseifner_all_reduce -- sum for everyone with few rounds and few bytes.
 * Idea:   recursive halving ReduceScatter, then recursive doubling AllGather. Where P is no power
 *         of two nothing is folded beforehand: halves may differ by a rank.
 * Order:  as recursive_halving_reduce_scatter, each block once: all ranks get the same bits.
 * Cost:   2 ceil(log2 P) rounds; 2n(P-1)/P elements sent and n(P-1)/P added when even and P is a
 *         power of two; otherwise by some ranks up to twice as many.
 * Source: Rabenseifner, ICCS 2004; as its two halves. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/terms.h"

void pl_rabenseifner_all_reduce(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                                int rank)
{
    const pl_collective_call scatter = pl_call_reduce_scatter_half(call);
    const pl_collective_call gather = pl_call_all_gather_half(call);

    pl_recursive_halving_reduce_scatter(s, &scatter, site, rank);
    pl_recursive_doubling_all_gather(s, &gather, site, rank);
}
