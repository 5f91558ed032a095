/* permute -- one region to one rank, one from another: shifts, and moves between pipeline stages.
 * Cost:   1 round, the region's elements. To itself it is a copy. */
#include "config.h"

#include "collectives/algorithms.h"
#include "src/base/panic.h"

void pl_permute(pl_schedule *s, const pl_collective_call *call, const pl_site *site, int rank)
{
    const int to = call->to_rank, from = call->from_rank;

    (void)site;
    if (to == rank || from == rank) {
        PL_ASSERT(to == rank && from == rank);
        pl_schedule_copy(s, call->recv, call->send);
    } else {
        if (to >= 0)
            pl_schedule_send(s, to, call->send);
        if (from >= 0)
            pl_schedule_recv(s, from, call->recv);
    }
    pl_schedule_next_round(s);
}
