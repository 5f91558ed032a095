/* pat_all_gather -- a binomial tree a block, all at once: far and small first, near and large
 * last.
 * Idea:   in the rounds of distance d = ..., 4, 2, 1 a rank sends all that it has, its own block
 *         and those that came from afar, to the rank d above. Block b reaches rank b+m by way of
 *         the bits of m, highest first. Blocks go straight to their places.
 * Cost:   ceil(log2 P) rounds; n(P-1)/P elements sent when even. Bruck's has the same, but sends
 *         half of all blocks over the longest distance.
 * Source: Jeaugey, arXiv 2506.20252, 2025 (parallel aggregated trees), all branches of a tree at
 *         once. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/region.h"
#include "collectives/tree.h"
#include "collectives/terms.h"

void pl_pat_all_gather(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                       int rank)
{
    const pl_blocks x = call->blocks;
    const int P = x.n_ranks;
    const pl_region own = pl_call_own(call, rank);
    bool first = true;

    (void)site;
    pl_schedule_move(s, pl_blocks_at(x, rank), own);
    for (int d = pl_tree_top(P); d > 0; d /= 2) {
        pl_schedule_send(s, (rank + d) % P, first ? own : pl_tree_blocks(s, x, rank, d));
        pl_schedule_recv(s, (rank + P - d) % P, pl_tree_blocks(s, x, (rank + P - d) % P, d));
        pl_schedule_next_round(s);
        first = false;
    }
    pl_schedule_next_round(s);
}
