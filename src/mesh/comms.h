/* comms -- MPI communicators for groups of ranks of a mesh. */
#ifndef PURLIN_MESH_COMMS_H
#define PURLIN_MESH_COMMS_H

#include "src/mesh/mesh.h"

#include <mpi.h>

/** The ranks that differ from this one only along a set of axes, in mesh order. */
typedef struct {
    pl_axes axes;
    MPI_Comm comm; /* ours (dup'd): nobody else's messages travel on it */
    int size, rank;
} pl_group;

typedef struct {
    const pl_mesh *mesh;
    MPI_Comm world; /* dup of what create was given */
    int rank;       /* in world */
    pl_coords coords;
    int n_groups;
    pl_group *groups;
} pl_comms;

/** Make a group for every set of axes wanted by any rank: each rank passes the sets that it needs
 * (duplicates and different lists on different ranks are fine: they are agreed on first). The
 * empty set gives a group of one.
 * Collective over world, whose size must equal the mesh's. Never blocks inside MPI for long: ranks
 * arrive together. */
void pl_comms_create(MPI_Comm world, const pl_mesh *mesh, const pl_axes *sets, int n_sets,
                     pl_comms *comms);
/** Collective over world. */
void pl_comms_destroy(pl_comms *comms);

/** The group over `set`; panics when create was not asked for it. Local. */
const pl_group *pl_comms_group(const pl_comms *comms, pl_axes set);

#endif
