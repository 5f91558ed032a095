/* permute -- one region to one rank, one from another: shifts, and moves between pipeline stages.
 * Cost:   1 round, the region's elements. To itself it is a copy. */
#include "config.h"

#include "collectives/algorithms.h"
#include "src/base/panic.h"

void pl_permute(pl_schedule *s, pl_region send, int to_rank, pl_region recv, int from_rank,
                int rank)
{
    if (to_rank == rank || from_rank == rank) {
        PL_ASSERT(to_rank == rank && from_rank == rank);
        pl_schedule_copy(s, recv, send);
    } else {
        if (to_rank >= 0)
            pl_schedule_send(s, to_rank, send);
        if (from_rank >= 0)
            pl_schedule_recv(s, from_rank, recv);
    }
    pl_schedule_next_round(s);
}
