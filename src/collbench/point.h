/* point -- one size of one collective: verified, timed beside its rivals, verified again. */
#ifndef PURLIN_COLLBENCH_POINT_H
#define PURLIN_COLLBENCH_POINT_H

#include "src/collbench/bench.h"

/** Out of place (points[0]) and in place (points[1], where there is such a thing): how many. `like`
 * says which collective, type, reduction and count. Collective over the world; the same figures on
 * all ranks. */
int pl_bench_point_measure(pl_bench *bench, const pl_bench_case *like, pl_bench_point points[2]);

/** How many sets of arrays calls go through in turn: one, or with --off-cache enough for four times
 * the last cache (64 at most). Local. */
int pl_bench_n_sets(const pl_bench *bench, const pl_bench_case *c);

#endif
