/* direct_broadcast -- root's data to everyone in one round.
 * Idea:   the root sends everything to everyone, all at once.
 * Cost:   1 round; the root sends n(P-1) elements in P-1 messages, the others nothing.
 * Source: the linear tree of Pjesivac-Grbovic et al., Cluster Computing 10(2), 2007. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/region.h"
#include "collectives/terms.h"

void pl_direct_broadcast(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                         int rank)
{
    const int P = call->blocks.n_ranks;
    const pl_region all = pl_blocks_join(pl_schedule_arena(s), call->blocks, 0, P);
    const pl_region data = pl_call_data(call, all, rank);

    (void)site;
    pl_schedule_move(s, all, data);
    if (rank != call->root)
        pl_schedule_recv(s, call->root, all);
    for (int i = 1; i < P && rank == call->root; i++)
        pl_schedule_send(s, (rank + i) % P, data);
    pl_schedule_next_round(s);
}
