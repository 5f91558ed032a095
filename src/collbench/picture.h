/* picture -- a collective as its schedule has it: who sends and reads what, round by round. */
#ifndef PURLIN_COLLBENCH_PICTURE_H
#define PURLIN_COLLBENCH_PICTURE_H

#include "src/collbench/options.h"

/** For each --op, at --minbytes, first of the types and reductions, out of place: the schedule that
 * would be used among --ranks (default: n_ranks) on --hosts. Without --machine nothing is priced:
 * the first algorithm that applies is shown unless --algo (or PURLIN_ALGO) names one. Nothing is
 * run. Local; prints on rank 0. */
pl_status pl_bench_print_schedules(const pl_bench_options *options, int n_ranks);

#endif
