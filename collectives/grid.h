/* grid -- rings along all axes at once: what multi-axis algorithms are made of.
 *
 * Ranks form a grid, numbered row-major over its axes X_0, X_1, .... Every block is cut into as
 * many parts as there are axes; part j goes along the axes j, j+1, ... (cyclically), so that at any
 * time different parts use the links of different axes. Along an axis a ring runs both ways at
 * once: in hop d a rank passes on to either side what set out d-1 places before; half way round an
 * even ring two halves arrive from the two sides. All are local. */
#ifndef PURLIN_COLLECTIVES_GRID_H
#define PURLIN_COLLECTIVES_GRID_H

#include "collectives/schedule.h"
#include "collectives/site.h"

typedef struct {
    const pl_site *site;
    int rank;
    int n_rounds;                 /* sum of X_i / 2, rounded down each */
    int stride[PL_MAX_AXES];      /* ranks between neighbours along the axis */
    int at[PL_MAX_AXES];          /* this rank's coordinates */
    pl_blocks parts[PL_MAX_AXES]; /* part j of every block */
} pl_grid;

/** The grid of the site's axes for blocks x. Memory lives as long as the schedule. */
pl_grid pl_grid_of(pl_schedule *s, const pl_site *site, pl_blocks x, int rank);

/** AllGather of the blocks in place: n_rounds rounds; n(P-1)/P elements sent when even. */
void pl_grid_gather(pl_schedule *s, const pl_grid *g);

/** ReduceScatter of the blocks in place, pl_grid_gather() backwards; leaves partial sums in the
 * other blocks. Part j of a block adds up along axis j-1 first, then j-2, ..., j (cyclically);
 * along an axis a rank adds to its own what came from the right, then what came from the left, each
 * summed from the farthest in. As many rounds and elements. */
void pl_grid_reduce(pl_schedule *s, const pl_grid *g, pl_reduction reduction);

#endif
