/* race -- every algorithm that applies, timed turn by turn: was the choice by price a good one? */
#ifndef PURLIN_COLLBENCH_RACE_H
#define PURLIN_COLLBENCH_RACE_H

#include "src/collbench/bench.h"

/** All sizes of one collective, type and reduction, out of place: a row per size and algorithm with
 * its predicted and measured time; then from which size on which algorithm is the fastest, by
 * prediction and by measurement, and the regret of the choice (its time over the best's, less one),
 * median and worst. *wrong gains wrong elements of all of them. Collective over the world; prints
 * on rank 0. */
pl_status pl_bench_race(pl_bench *bench, pl_collective collective, pl_dtype dtype,
                        pl_reduction reduction, int64_t *wrong);

#endif
