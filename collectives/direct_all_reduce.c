/* direct_all_reduce -- sum for everyone in two rounds.
 * Idea:   direct ReduceScatter, then direct AllGather, in place.
 * Order:  block b adds ranks b, b+1, b+2, ... (mod P), once: all ranks get the same bits.
 * Cost:   2 rounds of P-1 messages, 2n(P-1)/P elements sent, n(P-1)/P added; scratch for n(P-1)/P.
 * Source: as its two halves. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/terms.h"

void pl_direct_all_reduce(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                          int rank)
{
    const pl_collective_call scatter = pl_call_reduce_scatter_half(call);
    const pl_collective_call gather = pl_call_all_gather_half(call);

    pl_direct_reduce_scatter(s, &scatter, site, rank);
    pl_direct_all_gather(s, &gather, site, rank);
}
