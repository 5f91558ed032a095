/* shared_all_to_all -- everyone reads its blocks out of everyone's memory.
 * Idea:   as shared_all_gather, each reader its own block of each peer.
 * Needs:  to know where the peers' blocks lie.
 * Cost:   2 stages; n(P-1)/P elements read from peers, n written, n being what a rank holds.
 * Source: as shared_all_gather. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/together.h"

void pl_shared_all_to_all(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                          int rank)
{
    const int P = site->n_ranks, ready = pl_together_signal(s, P);

    pl_schedule_copy(s, pl_blocks_at(call->to, rank), pl_blocks_at(call->from, rank));
    pl_schedule_next_round(s);
    for (int i = 1; i < P; i++) {
        const int peer = (rank + i) % P;

        if (i > 1)
            pl_schedule_next_round(s);
        pl_schedule_await(s, peer, ready, 0);
        pl_schedule_read(s, pl_blocks_at(call->to, peer), peer, pl_blocks_at(call->there, peer));
    }
    pl_together_meet(s, P, rank);
}
