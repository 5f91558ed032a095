/* recursive_doubling_all_reduce -- sum for everyone in the fewest rounds.
 * Idea:   partners at distance 1, 2, 4, ... exchange all they have and add. Where P is no power
 *         of two, each of the first P - 2^k even ranks first folds its terms into its odd
 *         neighbour and gets the result back at the end.
 * Order:  a balanced binary tree over the ranks in order (a folded pair counts as one leaf). a +
 *         b and b + a have the same bits, and so do the results of all ranks.
 * Cost:   log2 P rounds of n elements; otherwise floor(log2 P) + 2 rounds, of which a folded rank
 *         takes part in two, sending n once.
 * Source: Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/region.h"
#include "collectives/terms.h"

void pl_recursive_doubling_all_reduce(pl_schedule *s, const pl_collective_call *call,
                                      const pl_site *site, int rank)
{
    const int P = call->blocks.n_ranks;
    const pl_region all = pl_blocks_join(pl_schedule_arena(s), call->blocks, 0, P);
    pl_region terms = pl_blocks_join(pl_schedule_arena(s), pl_call_terms(call), 0, P);
    int core = 1, n_folded, place;

    (void)site;
    while (2 * core <= P)
        core *= 2;
    n_folded = P - core;

    if (rank < 2 * n_folded && rank % 2 == 0) {
        pl_schedule_send(s, rank + 1, terms);
        pl_schedule_next_round(s);
        pl_schedule_recv(s, rank + 1, all);
        pl_schedule_next_round(s);
        return;
    }
    if (P == 1)
        pl_schedule_move(s, all, terms);
    if (rank < 2 * n_folded) {
        pl_schedule_recv_term(s, rank - 1, all, terms, call->reduction);
        pl_schedule_next_round(s);
        terms = all;
    }
    place = rank < 2 * n_folded ? rank / 2 : rank - n_folded; /* among the `core` */
    for (int d = 1; d < core; d *= 2) {
        const int other = place ^ d, peer = other < n_folded ? 2 * other + 1 : other + n_folded;

        pl_schedule_send(s, peer, terms);
        pl_schedule_recv_term(s, peer, all, terms, call->reduction);
        pl_schedule_next_round(s);
        terms = all;
    }
    if (rank < 2 * n_folded)
        pl_schedule_send(s, rank - 1, all);
    pl_schedule_next_round(s);
}
