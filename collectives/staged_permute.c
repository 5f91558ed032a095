/* staged_permute -- a small region by way of staging, so that the sender need not wait.
 * Idea:   the sender goes on as soon as the region is in staging; before it uses the same half
 *         again, two runs later, it awaits that the receiver had ended that run.
 * Cost:   1 stage; the region's elements copied by the sender and read by the receiver.
 * Source: as staged_all_gather. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/region.h"

void pl_staged_permute(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                       int rank)
{
    enum { STAGED = 1 };
    const int to = call->to_rank, from = call->from_rank;
    const int64_t n = to >= 0 ? pl_region_elements(call->send) : 0;
    const int64_t m = from >= 0 ? pl_region_elements(call->recv) : 0;
    const pl_region staging = pl_schedule_staging(s, n > m ? n : m);

    if (to == rank || from == rank) {
        pl_permute(s, call, site, rank);
        return;
    }
    if (to >= 0) {
        pl_schedule_await(s, to, PL_STAGE_END, 2);
        pl_schedule_copy(s, pl_region_first(s, staging, n), call->send);
        pl_schedule_signal(s);
        pl_schedule_next_round(s);
    }
    if (from >= 0) {
        pl_schedule_await(s, from, STAGED, 0);
        pl_schedule_read(s, call->recv, from, pl_region_first(s, staging, m));
        pl_schedule_next_round(s);
    }
}
