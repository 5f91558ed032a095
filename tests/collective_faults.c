/* Faults that must end the job, made on purpose: run under mpirun with 3 ranks and the fault's
 * name. mismatch: rank 1 begins another operation than the others.  late: rank 2 never begins. */
#include "collectives/algorithms.h"
#include "collectives/engine.h"
#include "collectives/region.h"
#include "src/base/log.h"

#include <mpi.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const char *fault = argc > 1 ? argv[1] : "";
    const int64_t n = 100;
    float x[100] = {0}, scratch[100], *arrays[1] = {x};
    pl_arena *arena = pl_arena_create();
    pl_schedule *s = pl_schedule_create();
    pl_engine *engine = pl_engine_create();
    const char *name = "gradients of layer 1";
    pl_transfer *t;
    pl_group group;

    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &group.comm);
    MPI_Comm_size(group.comm, &group.size);
    MPI_Comm_rank(group.comm, &group.rank);
    pl_log_set_rank(group.rank);
    if (!strcmp(fault, "mismatch") && group.rank == 1)
        name = "gradients of layer 2";
    if (!strcmp(fault, "late") && group.rank == 2)
        sleep(60);
    pl_engine_set_checking(engine, true);
    pl_engine_set_stall(engine, 1);
    pl_ring_all_reduce(s, pl_blocks_of_arrays(arena, &n, 1, group.size), PL_SUM, group.rank);
    t = pl_engine_prepare(engine, s, &group, 3, arrays, 1, scratch, name);
    pl_engine_start(engine, t);
    pl_engine_wait(engine, t);
    pl_engine_destroy(engine);
    pl_schedule_destroy(s);
    pl_arena_destroy(arena);
    MPI_Comm_free(&group.comm);
    MPI_Finalize();
    return 0;
}
