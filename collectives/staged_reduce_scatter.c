/* staged_reduce_scatter -- small blocks by way of staging.
 * Idea:   put all terms but one's own where peers may read them; then sum the own block.
 * Order:  block b adds ranks 0, 1, ..., P-1.
 * Cost:   1 stage; n(P-1)/P elements copied, n read, n(P-1)/P added.
 * Source: as staged_all_gather. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/region.h"
#include "collectives/together.h"

void pl_staged_reduce_scatter(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                              int rank)
{
    pl_arena *const arena = pl_schedule_arena(s);
    const pl_blocks x = call->blocks;
    const int P = site->n_ranks;
    const pl_region mine = pl_blocks_at(x, rank);
    const pl_region staging = pl_schedule_staging(s, pl_collective_elements(call));
    const pl_place to = {PL_SELF, call->own.n_pieces > 0 ? call->own : mine};
    pl_place *from = pl_arena_alloc(arena, (size_t)P * sizeof *from);
    const pl_region before = pl_blocks_join(arena, x, 0, rank);
    const pl_region after = pl_blocks_join(arena, x, rank + 1, P - 1 - rank);
    const int64_t own_at = pl_region_elements(before);
    const int64_t after_at = own_at + pl_region_elements(mine);

    /* not block by block: each copy past the caches ends with a wait for its stores */
    pl_schedule_copy(s, pl_region_part(s, staging, 0, own_at), before);
    pl_schedule_copy(s, pl_region_part(s, staging, after_at, pl_region_elements(after)), after);
    pl_together_await(s, P, rank, pl_together_signal(s, P));
    for (int p = 0; p < P; p++)
        from[p] = p == rank
                      ? (pl_place){PL_SELF, mine}
                      : (pl_place){p, pl_region_part(s, staging, own_at, pl_region_elements(mine))};
    pl_schedule_combine(s, call->reduction, &to, 1, from, P);
    pl_schedule_next_round(s);
}
