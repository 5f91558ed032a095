#include "config.h"

#include "collectives/together.h"

int pl_together_signal(pl_schedule *s, int P)
{
    const int stage = P > 1 ? pl_schedule_signal(s) : 0;

    pl_schedule_next_round(s);
    return stage;
}

void pl_together_await(pl_schedule *s, int P, int rank, int stage)
{
    for (int i = 1; i < P; i++)
        pl_schedule_await(s, (rank + i) % P, stage, 0);
}

void pl_together_meet(pl_schedule *s, int P, int rank)
{
    pl_together_await(s, P, rank, pl_together_signal(s, P));
    pl_schedule_next_round(s);
}

const pl_place *pl_together_places(pl_schedule *s, int P, int rank, pl_region region)
{
    pl_place *places = pl_arena_alloc(pl_schedule_arena(s), (size_t)P * sizeof *places);

    for (int p = 0; p < P; p++)
        places[p] = (pl_place){p == rank ? PL_SELF : p, region};
    return places;
}
