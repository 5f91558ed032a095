/* bench -- a run of ./collbench: ranks, groups, machine; then the sweep over what was asked for. */
#ifndef PURLIN_COLLBENCH_BENCH_H
#define PURLIN_COLLBENCH_BENCH_H

#include "src/collbench/options.h"
#include "src/collbench/record.h"
#include "src/base/sample.h"
#include "src/mesh/comms.h"
#include "src/mesh/heap.h"
#include "src/mesh/topology.h"

typedef struct {
    const pl_bench_options *options;
    MPI_Comm world;
    pl_topology topology;
    pl_mesh mesh;
    pl_axes axes; /* that groups extend along */
    pl_comms comms;
    const pl_group *group;
    pl_heap *heap; /* NULL: messages only */
    pl_arena *arena;
    pl_site site; /* of the group */
    bool across;  /* some group leaves its host */
    /* for --off-cache, the same on all ranks */
    int64_t cache_bytes; /* of the largest last cache */
    int fewest_on_host;  /* ranks */
    pl_machine machine;
    char algo[PL_ALGO_TEXT]; /* rank 0's: environments may differ */
    pl_chooser chooser;
    pl_bench_clock clock;
    pl_bench_records records; /* files on rank 0 */
    bool is_open;             /* comms, heap, arena */
} pl_bench;

/** What the command line names, refused where it makes no sense. Collective over world. */
pl_status pl_bench_open(MPI_Comm world, const pl_bench_options *options, pl_bench *bench);

/** Groups, memory and output files, which may be refused too; machine, banner, and every point;
 * PL_WRONG when a result was. Collective over world. */
pl_status pl_bench_run(pl_bench *bench);

/** Free everything, at whatever stage; refuses when a file did not become whole. Collective over
 * world. */
pl_status pl_bench_close(pl_bench *bench);

#endif
