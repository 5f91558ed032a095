/* table -- what ./collbench prints: banner, rows as they are measured, means at the end. */
#ifndef PURLIN_COLLBENCH_TABLE_H
#define PURLIN_COLLBENCH_TABLE_H

#include "src/collbench/bench.h"

/** The run: ranks, hosts, groups, method. Collective over the world, as topology's is. */
void pl_bench_print_banner(const pl_bench *bench);
/** The heading of a collective's rows. Local; prints on rank 0. */
void pl_bench_print_heading(const pl_bench *bench, pl_collective c);
/** One row: out of place, and in place where n is 2. Local; prints on rank 0. */
void pl_bench_print_row(const pl_bench *bench, const pl_bench_point *points, int n);
/** Geometric means by collective and over all, and what the columns mean; the same as records.
 * Local; prints on rank 0. */
pl_status pl_bench_print_summary(pl_bench *bench);

#endif
