/* hierarchical_reduce_scatter -- sums inside a host first, then across hosts by messages.
 * Idea:   rank l of a host reads and adds its host's terms of the blocks of its lane and sends each
 *         sum to its owner, who adds one sum a host. The next block is summed while one flies. Sums
 *         of one host are left in the lane's other blocks.
 * Needs:  H hosts of L ranks.
 * Order:  the block of a rank of host h adds the sums of hosts h, h-1, h-2, ... (mod H), each the
 *         sum of its local ranks 0, 1, ..., L-1.
 * Cost:   H+1 rounds and 2 stages; the (H-1) blocks of the lane on other hosts sent, n(H-1)/(HL)
 *         elements when even, as many received to scratch; n elements read in turn, n(L-1)/L of
 *         them from peers, n(L-1)/L + n(H-1)/(HL) added.
 * Source: the lanes of Traff & Hunold, IEEE CLUSTER 2020; the reading as in shared_reduce_scatter.
 */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/hierarchy.h"
#include "collectives/terms.h"

void pl_hierarchical_reduce_scatter(pl_schedule *s, const pl_collective_call *call,
                                    const pl_site *site, int rank)
{
    const pl_hierarchy k = pl_hierarchy_of(s, site, rank);

    pl_hierarchy_reduce(s, &k, call->blocks, pl_call_terms(call), pl_call_own(call, rank), false,
                        call->reduction);
    pl_hierarchy_await(s, &k, pl_hierarchy_signal(s, &k));
    pl_schedule_next_round(s);
}
