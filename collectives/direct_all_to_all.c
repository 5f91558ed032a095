/* direct_all_to_all -- every rank has a block for every rank, in one round.
 * Idea:   everyone sends every block to its rank, all at once: one latency, many messages.
 * Cost:   1 round of P-1 messages; all blocks but its own, n(P-1)/P elements when even, n being
 *         what a rank holds.
 * Source: the linear exchange of Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/terms.h"

void pl_direct_all_to_all(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                          int rank)
{
    const pl_blocks from = call->from, to = call->to;
    const int P = from.n_ranks;

    (void)site;
    pl_schedule_move(s, pl_blocks_at(to, rank), pl_blocks_at(from, rank));
    for (int i = 1; i < P; i++) {
        const int above = (rank + i) % P, below = (rank + P - i) % P;

        pl_schedule_send(s, above, pl_blocks_at(from, above));
        pl_schedule_recv(s, below, pl_blocks_at(to, below));
    }
    pl_schedule_next_round(s);
}
