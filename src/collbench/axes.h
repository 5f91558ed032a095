/* axes -- --mesh and --axis: which ranks form a group. */
#ifndef PURLIN_COLLBENCH_AXES_H
#define PURLIN_COLLBENCH_AXES_H

#include "collectives/site.h"
#include "src/mesh/mesh.h"

/** "dp:2+tp:2", outermost first; NULL: one axis of n_ranks. Refuses what is no mesh of n_ranks
 * ranks. Local, as is everything here. */
pl_status pl_bench_mesh_parse(const char *spec, int n_ranks, pl_mesh *mesh);

/** "tp", "dp,tp"; NULL: all axes. */
pl_status pl_bench_axes_parse(const char *list, const pl_mesh *mesh, pl_axes *axes);

/** The group lies along these axes. */
void pl_bench_site_set_axes(pl_site *site, const pl_mesh *mesh, pl_axes axes);

#endif
