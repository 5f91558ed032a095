/* multi_axis_all_reduce -- sums along all axes at once, and back.
 * Idea:   multi-axis ReduceScatter, then multi-axis AllGather, in place.
 * Needs:  two axes or more.
 * Order:  as multi_axis_reduce_scatter, once: all ranks get the same bits.
 * Cost:   twice the rounds and elements of multi_axis_all_gather, n(P-1)/P added.
 * Source: as its two halves. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/terms.h"

void pl_multi_axis_all_reduce(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                              int rank)
{
    const pl_collective_call scatter = pl_call_reduce_scatter_half(call);
    const pl_collective_call gather = pl_call_all_gather_half(call);

    pl_multi_axis_reduce_scatter(s, &scatter, site, rank);
    pl_multi_axis_all_gather(s, &gather, site, rank);
}
