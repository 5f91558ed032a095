/* shared_all_reduce -- each rank sums one block and writes the sum into everyone's memory.
 * Idea:   when all are ready, rank r reads the P terms of block r where they lie and writes their
 *         sum to its place on all ranks, in one pass: a ReduceScatter and an AllGather in which
 *         nothing is read twice, and one stage less.
 * Order:  block b adds ranks 0, 1, ..., P-1, once: all ranks get the same bits.
 * Cost:   2 stages; n elements read and n written, n(P-1)/P of each with peers, n(P-1)/P added.
 * Source: as shared_all_gather; the fused write is ours. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/together.h"

void pl_shared_all_reduce(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                          int rank)
{
    const int P = site->n_ranks;
    const pl_place *to, *from;

    pl_together_await(s, P, rank, pl_together_signal(s, P));
    to = pl_together_places(s, P, rank, pl_blocks_at(call->blocks, rank));
    from = to;
    if (call->from.n_ranks > 0)
        from = pl_together_places(s, P, rank, pl_blocks_at(call->from, rank));
    pl_schedule_combine(s, call->reduction, to, P, from, P);
    pl_together_meet(s, P, rank);
}
