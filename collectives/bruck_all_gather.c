/* bruck_all_gather -- gather in the fewest rounds.
 * Idea:   before a round a rank holds d consecutive blocks from its own on; it sends them (or as
 *         many as are missing) to the rank d below and gets the next ones from the rank d above.
 *         Blocks go straight to their places: no rotation afterwards.
 * Cost:   ceil(log2 P) rounds, d = 1, 2, 4, ...; n(P-1)/P elements.
 * Source: Bruck, Ho, Kipnis, Upfal & Weathersby, IEEE TPDS 8(11), 1997. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/region.h"
#include "collectives/terms.h"

void pl_bruck_all_gather(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                         int rank)
{
    const pl_blocks x = call->blocks;
    const int P = x.n_ranks;
    const pl_region own = pl_call_own(call, rank);
    pl_arena *arena = pl_schedule_arena(s);

    (void)site;
    pl_schedule_move(s, pl_blocks_at(x, rank), own);
    for (int d = 1; d < P; d *= 2) {
        const int n = d < P - d ? d : P - d; /* blocks that travel */
        const int below = (rank + P - d) % P, above = (rank + d) % P;

        pl_schedule_send(s, below, d == 1 ? own : pl_blocks_join(arena, x, rank, n));
        pl_schedule_recv(s, above, pl_blocks_join(arena, x, above, n));
        pl_schedule_next_round(s);
    }
    pl_schedule_next_round(s);
}
