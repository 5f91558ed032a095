/* hierarchical_all_gather -- by messages across hosts, by reading inside them.
 * Idea:   each rank sends its block to the ranks of its lane on the other hosts, one host a round;
 *         meanwhile it reads from the others of its host what their lanes have brought.
 * Needs:  H hosts of L ranks.
 * Cost:   H+1 rounds and stages; (H-1) times the own block sent, n(H-1)/(HL) when
 *         even, n(L-1)/L elements read from peers.
 * Source: the lanes of Traff & Hunold, IEEE CLUSTER 2020; the reading as in shared_all_gather. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/hierarchy.h"
#include "collectives/terms.h"

void pl_hierarchical_all_gather(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                                int rank)
{
    const pl_blocks x = call->blocks;
    const bool reads_own = call->there.n_ranks > 0; /* on all ranks, even if empty */
    const pl_region mine = pl_blocks_at(x, rank), own = reads_own ? call->own : mine;
    const pl_hierarchy k = pl_hierarchy_of(s, site, rank);

    pl_schedule_publish(s, true);
    if (!reads_own && call->own.n_pieces > 0)
        pl_schedule_copy(s, mine, call->own);
    pl_schedule_publish(s, false);
    pl_hierarchy_signal(s, &k);
    pl_schedule_move(s, mine, own);
    pl_hierarchy_gather(s, &k, x, own, reads_own ? call->there : x);
}
