/* staged_all_to_all -- small blocks by way of staging.
 * Idea:   as staged_all_gather, with a slot of staging for each peer.
 * Needs:  to know the largest block of any rank.
 * Cost:   1 stage; n elements copied and n(P-1)/P read.
 * Source: as staged_all_gather. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/region.h"
#include "collectives/together.h"

void pl_staged_all_to_all(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                          int rank)
{
    const int P = site->n_ranks;
    const int64_t slot = call->largest;
    const pl_region staging = pl_schedule_staging(s, P * slot);

    pl_arena *const arena = pl_schedule_arena(s);
    pl_region *const slots = pl_arena_alloc(arena, (size_t)P * sizeof *slots);

    for (int i = 1; i < P; i++) {
        const int p = (rank + i) % P;

        slots[i] =
            pl_region_part(s, staging, p * slot, pl_region_elements(pl_blocks_at(call->from, p)));
    }
    /* all as one: each copy past the caches ends with a wait for its stores */
    pl_schedule_copy(s, pl_region_join(arena, slots + 1, P - 1),
                     pl_blocks_join(arena, call->from, rank + 1, P - 1));
    pl_schedule_copy(s, pl_blocks_at(call->to, rank), pl_blocks_at(call->from, rank));
    pl_together_await(s, P, rank, pl_together_signal(s, P));
    for (int i = 1; i < P; i++) {
        const int peer = (rank + i) % P;
        const pl_region to = pl_blocks_at(call->to, peer);

        pl_schedule_read(s, to, peer,
                         pl_region_part(s, staging, rank * slot, pl_region_elements(to)));
    }
    pl_schedule_next_round(s);
}
