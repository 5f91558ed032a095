/* topology -- hosts, cores and caches under the ranks (hwloc and MPI_Comm_split_type). */
#ifndef PURLIN_MESH_TOPOLOGY_H
#define PURLIN_MESH_TOPOLOGY_H

#include "src/mesh/mesh.h"

#include <mpi.h>

typedef struct {
    int n_ranks;         /* in the job */
    int n_hosts;         /* hosts in the job */
    int host;            /* index of this rank's host, in order of its lowest rank */
    int ranks_on_host;   /* on this rank's host */
    int rank_on_host;    /* this rank's place among them */
    int cores_on_host;   /* physical cores that this job may use there */
    int ranks_on_kernel; /* as on the host, of all hosts on this one's kernel: containers on one
                            machine */
    int rank_on_kernel;
    int cores_on_kernel;
    int cores_of_rank;   /* cores that this rank may run on (its binding; cgroup and affinity count)
                          */
    int threads; /* threads this rank should use: its fair share of its cores, at least 1; with
                    ranks of other hosts on its kernel */
    bool oversubscribed; /* more ranks than cores on some host of the job */
    int64_t l1_bytes, l2_bytes, l3_bytes; /* per core, per core, per cache; 0 where unknown */
    int l3_cores;                         /* cores that share an L3; at least 1 */
    char cpu[96];                         /* CPU model, "unknown" where hwloc does not know */
    char host_name[64];
} pl_topology;

/** Look at this host. Collective over comm. */
void pl_topology_discover(MPI_Comm comm, pl_topology *topology);

/** Where ranks take turns on cores, as many on each, and the launcher has bound none of them: stay
 * on core rank_on_kernel mod cores from now on. Ranks that are next to each other, such as those of
 * a stage, then lie on different cores. Left to itself the system counts ranks, and one that waits
 * polls and so looks busy: it would leave a stage's ranks on one core while the other only polls
 * (two stages of four ranks on two cores took 1.2 times as long). Says whether this rank is bound
 * now; pl_topology_discover() goes on to answer what the launcher gave. Local. */
bool pl_topology_spread(const pl_topology *topology);

/** host_of[r] = index of rank r's host, for all ranks of comm. Collective over comm. */
void pl_topology_hosts(MPI_Comm comm, const pl_topology *topology, int *host_of);

/** Whether all groups along `axis` of the mesh lie inside one host each. Collective over comm. */
bool pl_topology_axis_inside_host(MPI_Comm comm, const pl_topology *topology, const pl_mesh *mesh,
                                  int axis);

/** Bytes of memory that this host has. Local. */
double pl_topology_memory_bytes(void);

/** Several lines for the start-up banner: mesh, hosts, ranks and cores per host, cores that a rank
 * may run on now and its threads, caches, whether ranks oversubscribe cores, which axes stay inside a host.
 * Collective over comm. */
void pl_topology_print(MPI_Comm comm, const pl_topology *topology, const pl_mesh *mesh, char *text,
                       size_t size);

#endif
