/* moves -- the copies, reductions and combinations of a schedule bound to addresses. */
#ifndef PURLIN_COLLECTIVES_MOVES_H
#define PURLIN_COLLECTIVES_MOVES_H

#include "collectives/schedule.h"
#include "src/base/dtype.h"

/* Where a region lies: an address for each piece. In runs of the second half, pieces of staging lie
 * `half_bytes` further. */
typedef struct {
    const pl_region *region;
    char **piece; /* [region->n_pieces] */
    int64_t half_bytes;
} pl_bound_place;

typedef struct {
    pl_dtype dtype;
    pl_reduction reduction;
    int n_to, n_from;
    pl_bound_place *places;    /* [n_to + n_from]: to, then from */
    bool streams;              /* writes past the caches */
    int64_t n;                 /* elements */
    bool is_plain;             /* every place is one run */
    void **at;                 /* [n_to + n_from] room for addresses while running */
    struct pl_cursor *cursors; /* [n_to + n_from] likewise, where there are several runs */
} pl_move;

/** Set up a move among places that the caller then fills; all memory from `arena`. Local. */
void pl_move_init(pl_move *move, pl_arena *arena, pl_dtype dtype, pl_reduction reduction, int n_to,
                  int n_from);
/** After the places have been filled. Local. */
void pl_move_close(pl_move *move, pl_arena *arena);

/** Do it, for run number `run`. Local. */
void pl_move_run(const pl_move *move, int64_t run);

#endif
