/* Faults that must end the job, made on purpose. Run under mpirun with
 *
 *   collective_faults none|skip|late|other|name|count|dtype|die|leave|unended messages|shared
 *
 * All ranks go through the same few collectives again and again, with checking on, but for rank 1:
 * in its second step it skips one and goes on, never comes to it, is killed, or leaves; or it has
 * prepared another one under its name, or the same under another name, or one of another size or
 * type; or it begins the last one and never ends it. */
#include "collectives/collective.h"
#include "collectives/engine.h"
#include "collectives/region.h"
#include "src/base/log.h"
#include "src/base/memory.h"

#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FAULTY = 1, FAULTY_STEP = 1, FAULTY_OP = 1, N_STEPS = 3, N_OPS = 3, N_ELEMENTS = 1000 };

typedef struct {
    pl_collective collective;
    pl_dtype dtype;
    int64_t n;
    const char *name;
} op;

static const char *fault;
static bool is_faulty;

static bool has_fault(const char *which)
{
    return is_faulty && strcmp(fault, which) == 0;
}

/* What this rank prepares as operation number i. */
static op op_at(int i)
{
    op ops[N_OPS] = {{PL_ALL_REDUCE, PL_F32, N_ELEMENTS, "gradients of layer 1"},
                     {PL_ALL_GATHER, PL_F32, N_ELEMENTS, "weights of layer 2"},
                     {PL_ALL_REDUCE, PL_F32, 1, "loss"}};

    if (has_fault("other"))
        ops[FAULTY_OP].collective = PL_REDUCE_SCATTER;
    if (has_fault("name"))
        ops[FAULTY_OP].name = "weights of layer 3";
    if (has_fault("count"))
        ops[FAULTY_OP].n--;
    if (has_fault("dtype"))
        ops[FAULTY_OP].dtype = PL_I32;
    return ops[i];
}

/* What happens before operation number i of step number `step`; whether it is left out. */
static bool strike(int step, int i)
{
    if (step != FAULTY_STEP || i != FAULTY_OP)
        return false;
    if (has_fault("die"))
        raise(SIGKILL);
    if (has_fault("leave"))
        _exit(0);
    if (has_fault("late"))
        sleep(60);
    return has_fault("skip");
}

/* A collective that no notes hold up: the others come to it when rank 1 has given its part and has
 * gone to sleep, so they get through, and end it. */
static void run_unended(pl_engine *engine, pl_transfer *transfer)
{
    pl_engine_start(engine, transfer); /* so that the ranks know each other's memory */
    pl_engine_wait(engine, transfer);
    if (strcmp(fault, "unended") == 0 && !is_faulty)
        sleep(2);
    pl_engine_start(engine, transfer);
    if (has_fault("unended"))
        sleep(60);
    pl_engine_wait(engine, transfer);
}

static void run(const pl_group *group, pl_heap *heap, bool shared)
{
    const pl_chooser chooser = {
        .algo = shared ? "all_reduce=shared,all_gather=shared,reduce_scatter=shared"
                       : "all_reduce=ring,all_gather=ring,reduce_scatter=ring"};
    pl_arena *arena = pl_arena_create();
    const pl_site site = pl_site_one_host(arena, group->size, shared);
    pl_engine *engine = pl_engine_create(heap);
    void *array = pl_heap_alloc(heap, N_ELEMENTS * sizeof(float));
    void *scratch = pl_alloc(N_ELEMENTS * sizeof(float));
    pl_schedule *schedules[N_OPS], *unchecked;
    pl_transfer *transfers[N_OPS], *last;
    const int64_t n_elements = N_ELEMENTS;
    const pl_chooser staged = {.algo = shared ? "all_reduce=staged" : "all_reduce=ring"};
    const pl_collective_call farewell = {
        .collective = PL_ALL_REDUCE,
        .dtype = PL_F32,
        .blocks = pl_blocks_of_arrays(arena, &n_elements, 1, group->size)};

    unchecked = pl_collective_schedule(&farewell, &staged, &site, group->rank, NULL);
    last =
        pl_engine_prepare(engine, unchecked, group, N_OPS, PL_F32, &array, 1, scratch, "farewell");
    pl_engine_set_checking(engine, true);
    for (int i = 0; i < N_OPS; i++) {
        const op it = op_at(i);
        const pl_collective_call call = {.collective = it.collective,
                                         .dtype = it.dtype,
                                         .blocks =
                                             pl_blocks_of_arrays(arena, &it.n, 1, group->size)};

        schedules[i] = pl_collective_schedule(&call, &chooser, &site, group->rank, NULL);
        transfers[i] = pl_engine_prepare(engine, schedules[i], group, i, it.dtype, &array, 1,
                                         scratch, it.name);
    }
    for (int step = 0; step < N_STEPS; step++) {
        for (int i = 0; i < N_OPS; i++) {
            if (strike(step, i))
                continue;
            pl_engine_start(engine, transfers[i]);
            pl_engine_wait(engine, transfers[i]);
        }
    }
    run_unended(engine, last);
    pl_engine_destroy(engine);
    pl_schedule_destroy(unchecked);
    for (int i = 0; i < N_OPS; i++)
        pl_schedule_destroy(schedules[i]);
    pl_free(scratch);
    pl_heap_free(heap, array);
    pl_arena_destroy(arena);
}

int main(int argc, char **argv)
{
    const bool shared = argc > 2 && strcmp(argv[2], "shared") == 0;
    pl_heap *heap = NULL;
    pl_group group;

    fault = argc > 1 ? argv[1] : "none";
    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &group.comm);
    MPI_Comm_size(group.comm, &group.size);
    MPI_Comm_rank(group.comm, &group.rank);
    pl_log_set_rank(group.rank);
    is_faulty = group.rank == FAULTY;
    if (shared)
        heap = pl_heap_create(group.comm);
    if (shared && heap == NULL && group.rank == 0)
        printf("no shared memory\n");
    if (!shared || heap != NULL)
        run(&group, heap, shared);
    pl_heap_destroy(heap);
    MPI_Comm_free(&group.comm);
    MPI_Finalize();
    return 0;
}
