/* ring_reduce_scatter -- bandwidth-optimal sum, each rank keeps its own block.
 * Idea:   the sum owned by rank r sets out from r+1 and gains one term per round.
 * Order:  block b adds ranks b+1, b+2, ..., b (mod P).
 * Cost:   P-1 rounds; a rank sends and adds all blocks but one: n(P-1)/P elements.
 * Source: Patarasuk & Yuan, JPDC 69(2), 2009. */
#include "config.h"

#include "collectives/algorithms.h"

void pl_ring_reduce_scatter(pl_schedule *s, pl_blocks x, pl_reduction reduction, int rank)
{
    const int P = x.n_ranks, right = (rank + 1) % P, left = (rank + P - 1) % P;

    for (int round = 1; round < P; round++) {
        const int sent = (rank + P - round) % P, reduced = (rank + P - round - 1) % P;

        pl_schedule_send(s, right, pl_blocks_at(x, sent));
        pl_schedule_recv_reduce(s, left, pl_blocks_at(x, reduced), reduction);
        pl_schedule_next_round(s);
    }
}
