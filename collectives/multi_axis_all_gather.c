/* multi_axis_all_gather -- rings along all axes at once, both ways round.
 * Idea:   each block in as many parts as axes, each part along the axes in an order of its own.
 * Needs:  two axes or more: X_0 x X_1 x ... ranks.
 * Cost:   sum of X_i / 2 rounds (each rounded down) of at most two messages an axis; n(P-1)/P
 *         elements sent when even, over the links of all axes: T = max(T_min sum X_i / 2,
 *         V / (W n_axes)) on a torus.
 * Source: the book, section 3; Jain & Sabharwal, ICS 2010. */
#include "config.h"

#include "collectives/algorithms.h"
#include "collectives/grid.h"
#include "collectives/terms.h"

void pl_multi_axis_all_gather(pl_schedule *s, const pl_collective_call *call, const pl_site *site,
                              int rank)
{
    const pl_grid g = pl_grid_of(s, site, call->blocks, rank);

    if (call->own.n_pieces > 0)
        pl_schedule_copy(s, pl_blocks_at(call->blocks, rank), call->own);
    pl_grid_gather(s, &g);
}
