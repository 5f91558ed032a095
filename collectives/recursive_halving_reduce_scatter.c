/* recursive_halving_reduce_scatter -- sum in the fewest rounds, each rank keeps its own block.
 * Idea:   each rank sends its sums of the other half's blocks to its partner there, and adds what
 *         it gets for its own half; then each half does the same within itself. Halves may differ
 *         by a rank, whose odd one sends but gets nothing (collectives/halving.h).
 * Order:  rank i of a group adds to its own sum that of its partner, then that of the odd rank if
 *         it gets one.
 * Cost:   ceil(log2 P) rounds; n(P-1)/P elements sent when even; received and added as many when
 *         P is a power of two, otherwise by the last rank of a half up to twice as many.
 * Source: Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005, for powers of two; the uneven halves
 *         are our own. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/halving.h"
#include "collectives/region.h"
#include "collectives/terms.h"

/* to <- term (+ or max) what the partner and the odd rank send. */
static void add(pl_schedule *s, const pl_halving *h, pl_region to, pl_region term,
                pl_reduction reduction)
{
    if (pl_region_same(to, term)) {
        pl_schedule_recv_reduce(s, h->partner, to, reduction);
        pl_schedule_recv_reduce(s, h->odd, to, reduction);
    } else {
        const pl_region landing = pl_schedule_scratch(s, pl_region_elements(to));
        const pl_place sum = {PL_SELF, to};
        const pl_place of[] = {{PL_SELF, term}, {PL_SELF, to}, {PL_SELF, landing}};

        pl_schedule_recv(s, h->partner, to);
        pl_schedule_recv(s, h->odd, landing);
        pl_schedule_next_round(s);
        pl_schedule_combine(s, reduction, &sum, 1, of, 3);
    }
}

void pl_recursive_halving_reduce_scatter(pl_schedule *s, const pl_collective_call *call,
                                         const pl_site *site, int rank)
{
    const pl_blocks x = call->blocks;
    const pl_region own = pl_call_own(call, rank);
    pl_blocks terms = pl_call_terms(call); /* until the first sums */
    pl_arena *arena = pl_schedule_arena(s);
    pl_halving at[PL_MAX_HALVINGS];
    const int n_halvings = pl_halvings(x.n_ranks, rank, at);

    (void)site;
    if (n_halvings == 0)
        pl_schedule_move(s, own, pl_blocks_at(terms, rank));
    for (int i = 0; i < n_halvings; i++) {
        const pl_halving *h = &at[i];
        const pl_region term = pl_blocks_join(arena, terms, h->mine, h->n_mine);
        const pl_region to = h->n_mine == 1 ? own : pl_blocks_join(arena, x, h->mine, h->n_mine);

        pl_schedule_send(s, h->partner, pl_blocks_join(arena, terms, h->theirs, h->n_theirs));
        if (h->odd >= 0)
            add(s, h, to, term, call->reduction);
        else if (!h->is_odd)
            pl_schedule_recv_term(s, h->partner, to, term, call->reduction);
        pl_schedule_next_round(s);
        if (!h->is_odd)
            terms = x;
    }
    pl_schedule_next_round(s);
}
