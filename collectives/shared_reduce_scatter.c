/* shared_reduce_scatter -- each rank sums its block out of everyone's memory.
 * Idea:   when all are ready, read the P terms of the own block where they lie and write their sum
 *         once.
 * Order:  block b adds ranks 0, 1, ..., P-1.
 * Cost:   2 stages; n elements read, n(P-1)/P of them from peers, n/P written, n(P-1)/P added.
 * Source: as shared_all_gather. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/together.h"

void pl_shared_reduce_scatter(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                              int rank)
{
    const pl_region mine = pl_blocks_at(call->blocks, rank);
    const int P = site->n_ranks;
    const pl_place to = {PL_SELF, call->own.n_pieces > 0 ? call->own : mine};

    pl_together_await(s, P, rank, pl_together_signal(s, P));
    pl_schedule_combine(s, call->reduction, &to, 1, pl_together_places(s, P, rank, mine), P);
    pl_together_meet(s, P, rank);
}
