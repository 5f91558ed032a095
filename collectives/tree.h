/* tree -- P binomial trees at once, one a block, rooted at its rank.
 *
 * The tree of block b has rank b + m (mod P), m = 0..P-1, below rank b + m - d, where d is the
 * lowest bit of m. So with the distances d = ..., 4, 2, 1 one after another every rank is parent,
 * and every rank is child, in almost all trees whose next bit is d. */
#ifndef PURLIN_COLLECTIVES_TREE_H
#define PURLIN_COLLECTIVES_TREE_H

#include "collectives/schedule.h"

/** The largest distance: a power of two, the largest below P; 0 for P = 1. */
int pl_tree_top(int P);
/** The blocks in whose trees `parent` has parent + d for a child: those of the ranks parent - m,
 * m = 0, 2d, 4d, ... < P - d (mod P). */
pl_region pl_tree_blocks(pl_schedule *s, pl_blocks x, int parent, int d);

#endif
