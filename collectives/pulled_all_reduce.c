/* pulled_all_reduce -- each rank sums one block, then reads the others' sums.
 * Idea:   shared ReduceScatter, then shared AllGather, with the stage between them shared: a rank
 *         that has summed its block has also read everyone's terms of it. Against
 *         shared_all_reduce: a stage more and more reading, but nobody writes to another's memory.
 * Order:  block b adds ranks 0, 1, ..., P-1, once: all ranks get the same bits.
 * Cost:   3 stages; n + n(P-1)/P elements read, n written, n(P-1)/P added.
 * Source: as its two halves. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/together.h"

void pl_pulled_all_reduce(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                          int rank)
{
    const pl_blocks x = call->blocks;
    const int P = site->n_ranks;
    const pl_place to = {PL_SELF, pl_blocks_at(x, rank)};
    const pl_blocks terms = call->from.n_ranks > 0 ? call->from : x;
    int summed;

    pl_together_await(s, P, rank, pl_together_signal(s, P));
    pl_schedule_publish(s, true);
    pl_schedule_combine(s, call->reduction, &to, 1,
                        pl_together_places(s, P, rank, pl_blocks_at(terms, rank)), P);
    pl_schedule_publish(s, false);
    summed = pl_together_signal(s, P);
    for (int i = 1; i < P; i++) {
        const int peer = (rank + i) % P;

        pl_schedule_await(s, peer, summed, 0);
        pl_schedule_read(s, pl_blocks_at(x, peer), peer, pl_blocks_at(x, peer));
        if (i < P - 1)
            pl_schedule_next_round(s);
    }
    pl_together_meet(s, P, rank);
}
