/* hierarchical_all_reduce -- sums inside a host, over the lanes, and reading inside again.
 * Idea:   hierarchical ReduceScatter, then hierarchical AllGather; the signal between them says
 *         both that a rank's sum is ready and that it has read all terms.
 * Needs:  H hosts of L ranks.
 * Order:  as hierarchical_reduce_scatter, once: all ranks get the same bits.
 * Cost:   2H+1 rounds, H+2 stages; (H-1) blocks of the lane and (H-1) times the own block sent,
 *         2n(H-1)/(HL) elements when even; 2n(L-1)/L read from peers; scratch for (H-1) blocks.
 * Source: as its two halves. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/hierarchy.h"
#include "collectives/terms.h"

void pl_hierarchical_all_reduce(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                                int rank)
{
    const pl_blocks x = call->blocks;
    const pl_region own = pl_blocks_at(x, rank);
    const pl_hierarchy k = pl_hierarchy_of(s, site, rank);

    pl_hierarchy_reduce(s, &k, x, pl_call_terms(call), own, true, call->reduction);
    pl_hierarchy_signal(s, &k);
    pl_hierarchy_gather(s, &k, x, own, x);
}
