/* direct_reduce_scatter -- sum in one round, each rank keeps its own block.
 * Idea:   everyone sends every other rank that rank's block; the owner adds all terms.
 * Order:  block b adds ranks b, b+1, b+2, ... (mod P).
 * Cost:   1 round of P-1 messages; a rank sends all blocks but its own, n(P-1)/P elements when
 *         even, and needs scratch for P-1 times its own.
 * Source: the pairwise exchange of Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005, its rounds
 *         made one. */
#include "config.h"

#include "collectives/algorithms.h"

void pl_direct_reduce_scatter(pl_schedule *s, pl_blocks x, pl_reduction reduction, int rank)
{
    const int P = x.n_ranks;

    for (int i = 1; i < P; i++) {
        const int to = (rank + P - i) % P, from = (rank + i) % P;

        pl_schedule_send(s, to, pl_blocks_at(x, to));
        pl_schedule_recv_reduce(s, from, pl_blocks_at(x, rank), reduction);
    }
    pl_schedule_next_round(s);
}
