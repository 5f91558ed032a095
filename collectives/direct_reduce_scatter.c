/* direct_reduce_scatter -- sum in one round, each rank keeps its own block.
 * Idea:   everyone sends every other rank that rank's block; the owner adds all terms in one pass.
 * Order:  block b adds ranks b, b+1, b+2, ... (mod P).
 * Cost:   1 round of P-1 messages; a rank sends all blocks but its own, n(P-1)/P elements when
 *         even, and needs scratch for P-1 times its own.
 * Source: the pairwise exchange of Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005, its rounds
 *         made one. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/terms.h"

void pl_direct_reduce_scatter(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                              int rank)
{
    const pl_blocks terms = pl_call_terms(call);
    const int P = terms.n_ranks;
    const int64_t n = pl_region_elements(pl_blocks_at(terms, rank));
    const pl_place sum = {PL_SELF, pl_call_own(call, rank)};
    pl_place *of = pl_arena_alloc(pl_schedule_arena(s), (size_t)P * sizeof *of);

    (void)site;
    of[0] = (pl_place){PL_SELF, pl_blocks_at(terms, rank)};
    for (int i = 1; i < P; i++) {
        const int to = (rank + P - i) % P, from = (rank + i) % P;

        of[i] = (pl_place){PL_SELF, pl_schedule_scratch(s, n)};
        pl_schedule_send(s, to, pl_blocks_at(terms, to));
        pl_schedule_recv(s, from, of[i].region);
    }
    pl_schedule_next_round(s);
    if (P == 1)
        pl_schedule_move(s, sum.region, of[0].region);
    else
        pl_schedule_combine(s, call->reduction, &sum, 1, of, P);
    pl_schedule_next_round(s);
}
