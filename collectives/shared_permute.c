/* shared_permute -- the receiver reads the sender's region where it lies.
 * Needs:  to know where the sender's region lies.
 * Cost:   2 stages; the region's elements read and written.
 * Source: as shared_all_gather. */
#include "config.h"

#include "collectives/algorithms.h"

void pl_shared_permute(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                       int rank)
{
    const int to = call->to_rank, from = call->from_rank;
    int ready, over;

    if (to == rank || from == rank) {
        pl_permute(s, call, site, rank);
        return;
    }
    if (to < 0 && from < 0)
        return;
    ready = pl_schedule_signal(s); /* what is sent may be read */
    pl_schedule_next_round(s);
    if (from >= 0) {
        pl_schedule_await(s, from, ready, 0);
        pl_schedule_read(s, call->recv, from, call->peer_send);
    }
    over = pl_schedule_signal(s); /* what was to be received has been read */
    pl_schedule_next_round(s);
    if (to >= 0)
        pl_schedule_await(s, to, over, 0);
    pl_schedule_next_round(s);
}
