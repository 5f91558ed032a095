/* recursive_doubling_all_gather -- gather in the fewest rounds, between neighbours first.
 * Idea:   the halvings of collectives/halving.h backwards: partners exchange the blocks of their
 *         halves, smallest halves first; the odd rank only gets.
 * Cost:   ceil(log2 P) rounds; n(P-1)/P elements received when even; as many sent when P is a power
 *         of two, otherwise by the last rank of a half up to twice as many (where Bruck's, never).
 * Source: Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005, for powers of two; uneven halves are
 * our own. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/halving.h"
#include "collectives/region.h"
#include "collectives/terms.h"

void pl_recursive_doubling_all_gather(pl_schedule *s, const pl_collective_call *call,
                                      const pl_site *site, int rank)
{
    const pl_blocks x = call->blocks;
    const pl_region own = pl_call_own(call, rank);
    pl_arena *arena = pl_schedule_arena(s);
    pl_halving at[PL_MAX_HALVINGS];

    (void)site;
    pl_schedule_move(s, pl_blocks_at(x, rank), own);
    for (int i = pl_halvings(x.n_ranks, rank, at) - 1; i >= 0; i--) {
        const pl_halving *h = &at[i];
        const pl_region mine = h->n_mine == 1 ? own : pl_blocks_join(arena, x, h->mine, h->n_mine);

        if (!h->is_odd)
            pl_schedule_send(s, h->partner, mine);
        if (h->odd >= 0)
            pl_schedule_send(s, h->odd, mine);
        pl_schedule_recv(s, h->partner, pl_blocks_join(arena, x, h->theirs, h->n_theirs));
        pl_schedule_next_round(s);
    }
    pl_schedule_next_round(s);
}
