/* staged_all_gather -- small blocks by way of staging.
 * Idea:   put the own block where peers may read it at their leisure, and go on when theirs are
 *         read: no closing stage, since staging is double and nobody can be two runs ahead.
 * Cost:   1 stage; the own block copied, n(P-1)/P elements read.
 * Source: the double buffers of Graham & Shipman, EuroPVM/MPI 2008. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/region.h"
#include "collectives/together.h"

void pl_staged_all_gather(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                          int rank)
{
    const pl_blocks x = call->blocks;
    const int P = site->n_ranks;
    const pl_region mine = pl_blocks_at(x, rank);
    const bool apart = call->own.n_pieces > 0;
    const pl_region staging = pl_schedule_staging(s, pl_blocks_largest(x));

    if (P > 1)
        pl_schedule_copy(s, pl_region_first(s, staging, pl_region_elements(mine)),
                         apart ? call->own : mine);
    pl_together_await(s, P, rank, pl_together_signal(s, P));
    if (apart)
        pl_schedule_copy(s, mine, call->own);
    for (int i = 1; i < P; i++) {
        const int peer = (rank + i) % P;
        const pl_region theirs = pl_blocks_at(x, peer);

        pl_schedule_read(s, theirs, peer, pl_region_first(s, staging, pl_region_elements(theirs)));
    }
    pl_schedule_next_round(s);
}
