/* ring_all_gather -- bandwidth-optimal gather.
 * Idea:   every round passes on to the right the block that came from the left the round before.
 * Cost:   P-1 rounds; a rank sends all blocks but its right neighbour's: n(P-1)/P elements.
 * Source: Chan, Heimlich, Purkayastha & van de Geijn, Concurrency and Computation 19(13), 2007. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/terms.h"

void pl_ring_all_gather(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                        int rank)
{
    const pl_blocks x = call->blocks;
    const int P = x.n_ranks, right = (rank + 1) % P, left = (rank + P - 1) % P;
    const pl_region own = pl_call_own(call, rank);

    (void)site;
    pl_schedule_move(s, pl_blocks_at(x, rank), own);
    for (int round = 0; round < P - 1; round++) {
        const int sent = (rank + P - round) % P, received = (rank + P - round - 1) % P;

        pl_schedule_send(s, right, round == 0 ? own : pl_blocks_at(x, sent));
        pl_schedule_recv(s, left, pl_blocks_at(x, received));
        pl_schedule_next_round(s);
    }
    pl_schedule_next_round(s);
}
