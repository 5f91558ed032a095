/* finish -- test all, wait a little, again. */
#include "config.h"

#include "src/base/finish.h"

#include "src/base/panic.h"
#include "src/base/wait.h"

void pl_mpi_finish(MPI_Request *requests, int n)
{
    pl_wait w = {0};
    int done = 0;

    for (;;) {
        PL_MPI(MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE));
        if (done)
            return;
        pl_wait_once(&w);
    }
}

void pl_mpi_meet(MPI_Comm comm)
{
    MPI_Request request;

    PL_MPI(MPI_Ibarrier(comm, &request));
    pl_mpi_finish(&request, 1);
}

void pl_mpi_all_reduce(MPI_Comm comm, void *values, int n, MPI_Datatype type, MPI_Op op)
{
    MPI_Request request;

    PL_MPI(MPI_Iallreduce(MPI_IN_PLACE, values, n, type, op, comm, &request));
    pl_mpi_finish(&request, 1);
}
