/* staged_all_reduce -- small arrays by way of staging.
 * Idea:   put all terms where peers may read them; then everyone sums everything.
 * Order:  ranks 0, 1, ..., P-1, the same everywhere: all ranks get the same bits.
 * Cost:   1 stage; n elements copied, P n read, n(P-1) added.
 * Source: as staged_all_gather. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/region.h"
#include "collectives/together.h"

void pl_staged_all_reduce(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                          int rank)
{
    pl_arena *arena = pl_schedule_arena(s);
    const int P = site->n_ranks;
    const pl_region all = pl_blocks_join(arena, call->blocks, 0, P);
    const pl_region terms = call->from.n_ranks > 0 ? pl_blocks_join(arena, call->from, 0, P) : all;
    const pl_region staging = pl_schedule_staging(s, pl_region_elements(all));
    const pl_place to = {PL_SELF, all};
    pl_place *from = pl_arena_alloc(arena, (size_t)P * sizeof *from);

    for (int p = 0; p < P; p++)
        from[p] = p == rank ? (pl_place){PL_SELF, terms} : (pl_place){p, staging};
    if (P > 1)
        pl_schedule_copy(s, staging, terms);
    pl_together_await(s, P, rank, pl_together_signal(s, P));
    pl_schedule_combine(s, call->reduction, &to, 1, from, P);
    pl_schedule_next_round(s);
}
