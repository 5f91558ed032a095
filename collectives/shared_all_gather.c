/* shared_all_gather -- everyone reads everyone's block where it lies.
 * Idea:   say that the own block is ready, read each peer's as soon as it says so, say so when all
 *         are read. One copy of each block, no message. Rank r begins with r+1, so that readers
 *         spread over the owners.
 * Cost:   2 stages; n(P-1)/P elements read from peers, as many written; the own block too where it
 *         lies apart.
 * Source: the address-space trick of Hashmi, Chakraborty, Bayatpour, Subramoni & Panda, IPDPS 2018.
 */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/together.h"

void pl_shared_all_gather(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                          int rank)
{
    const pl_blocks x = call->blocks;
    const bool reads_own = call->there.n_ranks > 0; /* on all ranks, even where own is empty */
    const int P = site->n_ranks;
    int ready;

    pl_schedule_publish(s, true);
    if (call->own.n_pieces > 0 && !reads_own)
        pl_schedule_copy(s, pl_blocks_at(x, rank), call->own);
    pl_schedule_publish(s, false);
    ready = pl_together_signal(s, P);
    if (reads_own) { /* while the peers are already reading it */
        pl_schedule_copy(s, pl_blocks_at(x, rank), call->own);
        pl_schedule_next_round(s);
    }
    for (int i = 1; i < P; i++) {
        const int peer = (rank + i) % P;

        pl_schedule_await(s, peer, ready, 0);
        pl_schedule_read(s, pl_blocks_at(x, peer), peer,
                         pl_blocks_at(reads_own ? call->there : x, peer));
        if (i < P - 1)
            pl_schedule_next_round(s);
    }
    pl_together_meet(s, P, rank);
}
