/* multi_axis_reduce_scatter -- multi_axis_all_gather backwards.
 * Needs:  two axes or more.
 * Order:  part j of n_axes of a block adds up along axis j-1, j-2, ..., j (cyclically); along an
 *         axis a rank adds to its own term what the right sends, then what the left sends, each of
 *         them summed from the farthest rank in.
 * Cost:   rounds and elements as multi_axis_all_gather, n(P-1)/P added; n more copied where the
 *         terms lie apart.
 * Source: as multi_axis_all_gather. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/grid.h"
#include "collectives/region.h"
#include "collectives/terms.h"

#include <string.h>

void pl_multi_axis_reduce_scatter(pl_schedule *s, const pl_collective_call *call,
                                  const pl_site *site, int rank)
{
    const pl_blocks terms = pl_call_terms(call);
    const int P = site->n_ranks;
    pl_region *const of = pl_arena_alloc(pl_schedule_arena(s), (size_t)P * sizeof *of);
    pl_grid g;

    memcpy(of, call->blocks.of, (size_t)P * sizeof *of);
    of[rank] = pl_call_own(call, rank); /* never sent, so it may lie elsewhere */
    for (int b = 0; b < P; b++)
        if (!pl_region_same(of[b], pl_blocks_at(terms, b)))
            pl_schedule_copy(s, of[b], pl_blocks_at(terms, b));
    g = pl_grid_of(s, site, (pl_blocks){.n_ranks = P, .of = of}, rank);
    pl_grid_reduce(s, &g, call->reduction);
}
