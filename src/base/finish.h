/* finish -- wait for an MPI request the way every wait of ours waits; collectives that do. */
#ifndef PURLIN_BASE_FINISH_H
#define PURLIN_BASE_FINISH_H

#include <mpi.h>

/** Poll, then yield, then sleep until all n requests are complete; never blocks inside MPI. Local
 * (the requests' operations may be collective). */
void pl_mpi_finish(MPI_Request *requests, int n);

/** Until every rank of comm has come here. Collective over comm. */
void pl_mpi_meet(MPI_Comm comm);

/** values[n] <- their combination over the ranks of comm, by MPI_Iallreduce().
 * Collective over comm. */
void pl_mpi_all_reduce(MPI_Comm comm, void *values, int n, MPI_Datatype type, MPI_Op op);

#endif
