#include "config.h"

#include "collectives/terms.h"

#include "collectives/region.h"

pl_collective_call pl_call_reduce_scatter_half(const pl_collective_call *call)
{
    pl_collective_call half = *call;

    half.collective = PL_REDUCE_SCATTER;
    half.own = (pl_region){0};
    return half;
}

pl_collective_call pl_call_all_gather_half(const pl_collective_call *call)
{
    pl_collective_call half = *call;

    half.collective = PL_ALL_GATHER;
    half.own = (pl_region){0};
    half.from = (pl_blocks){0};
    return half;
}

void pl_schedule_move(pl_schedule *s, pl_region to, pl_region from)
{
    if (!pl_region_same(to, from))
        pl_schedule_read(s, to, PL_SELF, from);
}

void pl_schedule_recv_term(pl_schedule *s, int peer, pl_region to, pl_region term,
                           pl_reduction reduction)
{
    const pl_place sum = {PL_SELF, to}, terms[] = {{PL_SELF, term}, {PL_SELF, to}};

    if (pl_region_same(to, term)) {
        pl_schedule_recv_reduce(s, peer, to, reduction);
    } else {
        pl_schedule_recv(s, peer, to);
        pl_schedule_next_round(s);
        pl_schedule_combine(s, reduction, &sum, 1, terms, 2);
    }
}
