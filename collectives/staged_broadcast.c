/* staged_broadcast -- small data by way of staging, so that the root need not wait.
 * Idea:   as staged_permute, with many receivers.
 * Cost:   1 stage; n elements copied by the root and read by each of the others.
 * Source: as staged_all_gather. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/region.h"

void pl_staged_broadcast(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                         int rank)
{
    enum { STAGED = 1 };
    const int P = site->n_ranks;
    const pl_region all = pl_blocks_join(pl_schedule_arena(s), call->blocks, 0, P);
    const pl_region staging = pl_schedule_staging(s, pl_region_elements(all));

    if (rank != call->root) {
        pl_schedule_await(s, call->root, STAGED, 0);
        pl_schedule_read(s, all, call->root, staging);
        pl_schedule_next_round(s);
        return;
    }
    for (int p = 0; p < P; p++)
        if (p != rank)
            pl_schedule_await(s, p, PL_STAGE_END, 2);
    if (call->own.n_pieces > 0)
        pl_schedule_copy(s, all, call->own);
    if (P > 1) {
        pl_schedule_copy(s, staging, all);
        pl_schedule_signal(s);
    }
    pl_schedule_next_round(s);
}
