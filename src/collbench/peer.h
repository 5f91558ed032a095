/* peer -- the MPI library's own collectives, on arrays and groups like ours. */
#ifndef PURLIN_COLLBENCH_PEER_H
#define PURLIN_COLLBENCH_PEER_H

#include "src/collbench/case.h"
#include "src/mesh/comms.h"

typedef struct {
    const pl_bench_case *c;
    const pl_group *group;
    int n_sets;                       /* of arrays, used in turn */
    void *(*arrays)[PL_BENCH_ARRAYS]; /* [n_sets], from malloc */
    MPI_Op op;
    MPI_Datatype type;
    bool made_op;
} pl_bench_peer;

/** Whether MPI's int counts hold the case. */
bool pl_bench_peer_can(const pl_bench_case *c);

/** Arrays for the case (kept, as is the group). bf16 is nothing that MPI 3 knows: it is moved as
 * uint16, and summed by our own addition as a user operation. Local. */
void pl_bench_peer_open(pl_bench_peer *peer, const pl_bench_case *c, const pl_group *group,
                        int n_sets);
void pl_bench_peer_close(pl_bench_peer *peer);

/** MPI_Allgather, MPI_Reduce_scatter_block, MPI_Allreduce, MPI_Alltoall, MPI_Bcast (preceded by
 * root's copy when out of place) or MPI_Sendrecv, on set number % n_sets. Blocks inside MPI.
 * Collective over the group. `data`: pl_bench_peer. */
void pl_bench_peer_call(void *data, int64_t number);

/** After a call on `set`: MPI's ReduceScatter in place leaves the sum at the beginning of the
 * array; move it to where ours is. Local. */
void pl_bench_peer_settle(const pl_bench_peer *peer, int set);

#endif
