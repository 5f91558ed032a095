/* shared_broadcast -- everyone reads root's data where they lie.
 * Cost:   2 stages; n elements read and written by all but the root.
 * Source: as shared_all_gather. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/region.h"

void pl_shared_broadcast(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                         int rank)
{
    enum { READY = 1, READ = 1 }; /* the first signal of the root, and of the others */
    const int P = site->n_ranks;
    const pl_region all = pl_blocks_join(pl_schedule_arena(s), call->blocks, 0, P);
    const bool reads_own = call->there.n_ranks > 0; /* on all ranks */

    if (rank != call->root) {
        pl_schedule_await(s, call->root, READY, 0);
        pl_schedule_read(s, all, call->root,
                         reads_own ? pl_blocks_at(call->there, call->root) : all);
        pl_schedule_signal(s);
        pl_schedule_next_round(s);
        return;
    }
    pl_schedule_publish(s, true);
    if (call->own.n_pieces > 0 && !reads_own)
        pl_schedule_copy(s, all, call->own);
    pl_schedule_publish(s, false);
    if (P > 1)
        pl_schedule_signal(s);
    pl_schedule_next_round(s);
    if (reads_own) { /* while the others are already reading it */
        pl_schedule_copy(s, all, call->own);
        pl_schedule_next_round(s);
    }
    for (int p = 0; p < P; p++)
        if (p != rank)
            pl_schedule_await(s, p, READ, 0);
    pl_schedule_next_round(s);
}
