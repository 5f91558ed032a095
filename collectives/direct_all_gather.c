/* direct_all_gather -- gather in one round.
 * Idea:   everyone sends its block to everyone, all at once: one latency, many messages.
 * Cost:   1 round of P-1 messages; (P-1) times the rank's own block, n(P-1)/P elements when even.
 * Source: the linear exchange of Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/terms.h"

void pl_direct_all_gather(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                          int rank)
{
    const pl_blocks x = call->blocks;
    const int P = x.n_ranks;
    const pl_region own = pl_call_own(call, rank);

    (void)site;
    pl_schedule_move(s, pl_blocks_at(x, rank), own);
    for (int i = 1; i < P; i++) {
        const int to = (rank + i) % P, from = (rank + P - i) % P;

        pl_schedule_send(s, to, own);
        pl_schedule_recv(s, from, pl_blocks_at(x, from));
    }
    pl_schedule_next_round(s);
}
