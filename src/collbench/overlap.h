/* overlap -- how much of a collective hides behind a matmul. */
#ifndef PURLIN_COLLBENCH_OVERLAP_H
#define PURLIN_COLLBENCH_OVERLAP_H

#include "src/collbench/bench.h"
#include "src/collbench/ours.h"

/** The share of the collective's time that vanishes when it is started before, and waited for after
 * a matmul of about its length (time_s), which calls the engine between macro-blocks:
 * (collective + matmul - both) / collective, from 0 to 1; all three timed in turn. Where
 * collectives are copies by the same cores, only waiting can be hidden. Collective over the world.
 */
double pl_bench_overlap(pl_bench *bench, pl_bench_ours *ours, double time_s);

#endif
