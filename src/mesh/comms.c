#include "config.h"

#include "src/mesh/comms.h"

#include "src/base/finish.h"
#include "src/base/memory.h"
#include "src/base/panic.h"

#include <string.h>

enum { N_SETS = 1 << PL_MAX_AXES, WORD_BITS = 64, N_WORDS = N_SETS / WORD_BITS };

/* The sets wanted by any rank, as one bit each. Collective over world. */
static void agree_on_sets(MPI_Comm world, const pl_axes *sets, int n_sets, uint64_t *wanted)
{
    memset(wanted, 0, N_WORDS * sizeof *wanted);
    for (int i = 0; i < n_sets; i++) {
        PL_ASSERT(sets[i] < N_SETS);
        wanted[sets[i] / WORD_BITS] |= (uint64_t)1 << sets[i] % WORD_BITS;
    }
    pl_mpi_all_reduce(world, wanted, N_WORDS, MPI_UINT64_T, MPI_BOR);
}

/* Collective over world. */
static pl_group make_group(const pl_comms *comms, pl_axes set)
{
    const pl_mesh *mesh = comms->mesh;
    /* Ranks that agree on all other axes: named by the one among them at the origin of the set. */
    const int64_t color = pl_mesh_rank(mesh, pl_mesh_member(mesh, set, comms->coords, 0));
    pl_group group = {.axes = set,
                      .size = pl_mesh_extent(mesh, set),
                      .rank = pl_mesh_position(mesh, set, comms->coords)};
    int size, rank;

    PL_MPI(MPI_Comm_split(comms->world, (int)color, group.rank, &group.comm));
    PL_MPI(MPI_Comm_size(group.comm, &size));
    PL_MPI(MPI_Comm_rank(group.comm, &rank));
    PL_ASSERT(size == group.size && rank == group.rank);
    return group;
}

void pl_comms_create(MPI_Comm world, const pl_mesh *mesh, const pl_axes *sets, int n_sets,
                     pl_comms *comms)
{
    uint64_t wanted[N_WORDS];
    MPI_Request request;
    int n_ranks, n = 0;

    memset(comms, 0, sizeof *comms);
    comms->mesh = mesh;
    PL_MPI(MPI_Comm_idup(world, &comms->world, &request));
    pl_mpi_finish(&request, 1);
    PL_MPI(MPI_Comm_size(comms->world, &n_ranks));
    PL_MPI(MPI_Comm_rank(comms->world, &comms->rank));
    PL_ASSERT(n_ranks == pl_mesh_size(mesh));
    comms->coords = pl_mesh_coords(mesh, comms->rank);

    agree_on_sets(comms->world, sets, n_sets, wanted);
    for (int w = 0; w < N_WORDS; w++)
        comms->n_groups += __builtin_popcountll(wanted[w]);
    comms->groups = pl_alloc((size_t)comms->n_groups * sizeof *comms->groups);
    for (pl_axes set = 0; set < N_SETS; set++)
        if (wanted[set / WORD_BITS] >> set % WORD_BITS & 1)
            comms->groups[n++] = make_group(comms, set);
}

void pl_comms_destroy(pl_comms *comms)
{
    for (int i = 0; i < comms->n_groups; i++)
        PL_MPI(MPI_Comm_free(&comms->groups[i].comm));
    pl_free(comms->groups);
    PL_MPI(MPI_Comm_free(&comms->world));
    memset(comms, 0, sizeof *comms);
}

const pl_group *pl_comms_group(const pl_comms *comms, pl_axes set)
{
    for (int i = 0; i < comms->n_groups; i++)
        if (comms->groups[i].axes == set)
            return &comms->groups[i];

    char axes[64];
    pl_axes_print(comms->mesh, set, axes, sizeof axes);
    PL_PANIC("no communicator was made for the axes {%s}", axes);
}
