/* reshard -- the collectives that turn one sharding of an array into another (book, section 3).
 *
 *   AllGather      drops an axis from a dim's split
 *   ReduceScatter  turns a pending sum {U_x} into a split
 *   AllReduce      resolves a pending sum or maximum
 *   AllToAll       moves an axis from one dim to another
 *   Slice          keeps the local part of a replicated array: no communication
 *
 * Since splits nest, only the minor (last) axes of a dim can be gathered, and an axis is appended
 * as the new minor one; a plan that must change a major axis gathers down to it first. */
#ifndef PURLIN_MESH_RESHARD_H
#define PURLIN_MESH_RESHARD_H

#include "src/mesh/sharding.h"

typedef enum {
    PL_RESHARD_ALL_GATHER,
    PL_RESHARD_REDUCE_SCATTER,
    PL_RESHARD_ALL_REDUCE,
    PL_RESHARD_ALL_TO_ALL,
    PL_RESHARD_SLICE,
} pl_reshard_kind;

typedef struct {
    pl_reshard_kind kind;
    pl_axes axes; /* the group it runs over; consecutive minor axes of one dim in mesh order
                   * are one step (for a slice, which is local, in any order: after.split has it) */
    bool is_max;  /* AllReduce: maximum instead of sum */
    int dim;      /* dim gathered, scattered, sliced; for AllToAll the dim that loses the axes */
    int to_dim;   /* AllToAll: the dim that gains the axes */
    pl_sharding after; /* the sharding when this step is done */
} pl_reshard_step;

enum { PL_MAX_RESHARD_STEPS = 4 * PL_MAX_AXES };

/** Plan from -> to. Order: reductions first when they shrink the array (ReduceScatter), slices as
 * early as possible, gathers last. Equal shardings give no steps. Refuses what cannot be had: a
 * pending sum that `from` does not have (a replicated array is not a partial sum), a pending sum
 * turned to a maximum. Local.
 * `steps` has room for PL_MAX_RESHARD_STEPS. */
pl_status pl_reshard_plan(const pl_mesh *mesh, const char *name, const pl_shape *shape,
                          const pl_sharding *from, const pl_sharding *to, pl_reshard_step *steps,
                          int *n_steps);

#endif
