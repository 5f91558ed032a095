#include "config.h"

#include "src/plan/slow_chip.h"

#include "collectives/algorithms.h"
#include "collectives/messages.h"
#include "collectives/region.h"
#include "src/base/memory.h"

#include <math.h>

static pl_status check(const pl_wires *w)
{
    if (pl_wires_chips(w) > PL_SLOW_CHIPS)
        return pl_refuse(PL_BAD_INPUT,
                         "--slow-link: %lld chips; every message is followed for %d at most",
                         (long long)pl_wires_chips(w), PL_SLOW_CHIPS);
    for (int i = 0; i < w->n; i++)
        if (w->dim[i].kind == PL_LEVEL_TORUS ? !w->dim[i].is_ring : w->n > 1)
            return pl_refuse(PL_BAD_INPUT, "--slow-link: for axes that wrap around, or chips on one "
                                           "switch; give fewer levels, or whole rings");
    return PL_OK;
}

/* By which the price of a level is made. */
static const char *algorithm_of(const pl_wires *w, pl_collective c)
{
    const int64_t P = pl_wires_chips(w);

    if (c == PL_ALL_TO_ALL)
        return "direct";
    if (w->dim[0].kind == PL_LEVEL_TORUS)
        return w->n > 1 ? "multi-axis" : "bidirectional-ring";
    if ((P & (P - 1)) != 0)
        return c == PL_ALL_GATHER ? "bruck" : "pat";
    return c == PL_ALL_GATHER       ? "recursive-doubling"
           : c == PL_REDUCE_SCATTER ? "recursive-halving"
                                    : "rabenseifner";
}

/* n elements for each rank, one after the other. */
static pl_blocks blocks_of(pl_arena *arena, int array, int P, int64_t n)
{
    pl_piece *piece = pl_arena_alloc(arena, (size_t)P * sizeof *piece);
    pl_region *region = pl_arena_alloc(arena, (size_t)P * sizeof *region);

    for (int r = 0; r < P; r++) {
        piece[r] = pl_piece_of(array, n * r, n);
        region[r] = (pl_region){1, &piece[r]};
    }
    return (pl_blocks){P, region};
}

static pl_schedule *schedule_of(const pl_wires *w, pl_collective c, int64_t n, int rank)
{
    enum { FROM, TO };
    const int P = (int)pl_wires_chips(w);
    pl_schedule *s = pl_schedule_create();
    pl_arena *arena = pl_schedule_arena(s);
    pl_site site = pl_site_one_host(arena, P, false);
    pl_collective_call call = {.collective = c, .dtype = PL_F32, .reduction = PL_SUM};

    site.n_axes = w->n;
    for (int i = 0; i < w->n; i++)
        site.extent[i] = w->dim[w->n - 1 - i].extent;
    if (c == PL_ALL_TO_ALL) {
        call.from = call.there = blocks_of(arena, FROM, P, n);
        call.to = blocks_of(arena, TO, P, n);
        call.largest = n;
    } else {
        call.blocks = blocks_of(arena, FROM, P, n);
    }
    pl_algorithm_find(c, algorithm_of(w, c))->write(s, &call, &site, rank);
    return s;
}

pl_status pl_slow_chip_collective(const pl_wires *wires, pl_collective c, double bytes,
                                  double factor, double *even_s, double *slow_s)
{
    const pl_schedule *schedules[PL_SLOW_CHIPS];
    const int P = (int)pl_wires_chips(wires);
    const pl_status status = check(wires);

    if (status != PL_OK)
        return status;
    for (int r = 0; r < P; r++)
        schedules[r] = schedule_of(wires, c, (int64_t)fmax(1, round(bytes / 4 / P)), r);
    *even_s = pl_messages_simulate(wires, schedules, PL_F32, (pl_slow_chip){-1, 1}, NULL);
    *slow_s = pl_messages_simulate(wires, schedules, PL_F32, (pl_slow_chip){0, factor}, NULL);
    for (int r = 0; r < P; r++)
        pl_schedule_destroy((pl_schedule *)schedules[r]);
    return PL_OK;
}
