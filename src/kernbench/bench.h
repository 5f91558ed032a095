/* bench -- what ./kernbench does. */
#ifndef PURLIN_KERNBENCH_BENCH_H
#define PURLIN_KERNBENCH_BENCH_H

#include "src/kernbench/options.h"

/** Measure, print and write all that is asked for; PL_WRONG when a check failed. Pins the process
 * to one CPU. One rank. */
pl_status pl_kernbench_run(const pl_kernbench_options *options);

#endif
