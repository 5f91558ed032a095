#include "config.h"

#include "src/roofline/rings.h"

#include "collectives/algorithms.h"
#include "collectives/cost.h"
#include "collectives/region.h"
#include "src/base/panic.h"

#include <math.h>

enum { MOST_RANKS = 4096, BLOCK_ELEMENTS = 2 };

/* The schedule of rank 0 on blocks of two elements: it halves, and it scales. */
static pl_schedule *ring_schedule(const pl_algorithm *a, int n, pl_arena *arena, pl_site *site)
{
    const int64_t elements = (int64_t)BLOCK_ELEMENTS * n;
    pl_schedule *s = pl_schedule_create();
    pl_collective_call call = {.collective = a->collective, .dtype = PL_F32, .reduction = PL_SUM};

    *site = pl_site_one_host(arena, n, false);
    call.blocks = pl_blocks_of_arrays(arena, &elements, 1, n);
    call.from = call.collective == PL_ALL_TO_ALL ? call.blocks : (pl_blocks){0};
    if (call.collective == PL_ALL_TO_ALL) {
        pl_piece *piece = pl_arena_alloc(arena, (size_t)n * sizeof *piece);
        pl_region *to = pl_arena_alloc(arena, (size_t)n * sizeof *to);

        for (int r = 0; r < n; r++) {
            piece[r] = pl_piece_of(1, (int64_t)BLOCK_ELEMENTS * r, BLOCK_ELEMENTS);
            to[r] = (pl_region){1, &piece[r]};
        }
        call.to = (pl_blocks){n, to};
    }
    a->write(s, &call, site, 0);
    return s;
}

double pl_ring_price_s(pl_collective collective, const char *algorithm, double n, double bytes,
                       double bytes_per_s, double latency_s)
{
    const pl_algorithm *a = pl_algorithm_find(collective, algorithm);
    const double share = BLOCK_ELEMENTS * sizeof(float) * n / bytes; /* of the array, as written */

    PL_ASSERT(a != NULL);
    if (!(n >= 1 && n <= MOST_RANKS && n == floor(n) && bytes > 0 && bytes_per_s > 0 &&
          latency_s >= 0))
        return NAN;
    pl_arena *arena = pl_arena_create();
    pl_site site;
    pl_schedule *s = ring_schedule(a, (int)n, arena, &site);
    pl_machine machine = {.reduce_bytes_per_s = INFINITY, .copy_bytes_per_s = INFINITY};

    machine.link[PL_LINK_SAME_HOST] = (pl_link){.latency_s = latency_s,
                                                .one_way_bytes_per_s = bytes_per_s * share,
                                                .both_ways_bytes_per_s = bytes_per_s * share};
    const double time_s = pl_schedule_price_s(s, PL_F32, &machine, &site, 0);

    pl_schedule_destroy(s);
    pl_arena_destroy(arena);
    return time_s;
}
