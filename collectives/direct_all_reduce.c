/* direct_all_reduce -- sum for everyone in two rounds.
 * Idea:   direct ReduceScatter, then direct AllGather, in place.
 * Order:  block b adds ranks b, b+1, b+2, ... (mod P), once: all ranks get the same bits.
 * Cost:   2 rounds of P-1 messages, 2n(P-1)/P elements sent, n(P-1)/P added; scratch for n(P-1)/P.
 * Source: as its two halves. */
#include "config.h"

#include "collectives/algorithms.h"

void pl_direct_all_reduce(pl_schedule *s, pl_blocks x, pl_reduction reduction, int rank)
{
    pl_direct_reduce_scatter(s, x, reduction, rank);
    pl_direct_all_gather(s, x, (pl_region){0}, rank);
}
