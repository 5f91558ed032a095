/* plot -- busbw over size, as an SVG picture. */
#ifndef PURLIN_COLLBENCH_PLOT_H
#define PURLIN_COLLBENCH_PLOT_H

#include "src/collbench/record.h"

/** A panel for each collective, type and reduction: ours (out of place), the limit, the prediction
 * and, where measured, MPI. Local. */
pl_status pl_bench_plot(const char *path, const pl_bench_records *records);

#endif
