/* ring_reduce_scatter -- bandwidth-optimal sum, each rank keeps its own block.
 * Idea:   the sum owned by rank r sets out from r+1 and gains one term per round.
 * Order:  block b adds ranks b+1, b+2, ..., b (mod P).
 * Cost:   P-1 rounds; a rank sends and adds all blocks but one: n(P-1)/P elements.
 * Source: Patarasuk & Yuan, JPDC 69(2), 2009. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/terms.h"

void pl_ring_reduce_scatter(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                            int rank)
{
    const pl_blocks x = call->blocks, terms = pl_call_terms(call);
    const int P = x.n_ranks, right = (rank + 1) % P, left = (rank + P - 1) % P;

    (void)site;
    if (P == 1)
        pl_schedule_move(s, pl_call_own(call, rank), pl_blocks_at(terms, rank));
    for (int round = 1; round < P; round++) {
        const int sent = (rank + P - round) % P, reduced = (rank + P - round - 1) % P;

        pl_schedule_send(s, right, pl_blocks_at(round == 1 ? terms : x, sent));
        pl_schedule_recv_term(s, left,
                              reduced == rank ? pl_call_own(call, rank) : pl_blocks_at(x, reduced),
                              pl_blocks_at(terms, reduced), call->reduction);
        pl_schedule_next_round(s);
    }
    pl_schedule_next_round(s);
}
