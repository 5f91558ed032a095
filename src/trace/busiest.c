#include "config.h"

#include "src/trace/busiest.h"

#include "src/base/finish.h"
#include "src/base/memory.h"
#include "src/base/panic.h"

typedef struct {
    double waited_s;
    int rank;
} waiting; /* MPI_DOUBLE_INT */

static int rank_of_busiest(MPI_Comm group, const pl_op_measure *own, int n, int rank)
{
    waiting least = {.rank = rank};

    for (int i = 0; i < n; i++)
        least.waited_s += own[i].exposed_s;
    pl_mpi_all_reduce(group, &least, 1, MPI_DOUBLE_INT, MPI_MINLOC);
    return least.rank;
}

void pl_busiest_measures(MPI_Comm group, const pl_op_measure *own, int n, pl_op_measure *out)
{
    enum { N_MEMBERS = 4 };
    double *x = pl_alloc((size_t)(N_MEMBERS * n + 1) * sizeof *x); /* zeros */
    int rank;

    PL_MPI(MPI_Comm_rank(group, &rank));
    if (rank == rank_of_busiest(group, own, n, rank))
        for (int i = 0; i < n; i++) {
            x[N_MEMBERS * i] = (double)own[i].calls;
            x[N_MEMBERS * i + 1] = own[i].busy_s;
            x[N_MEMBERS * i + 2] = own[i].turns_s;
            x[N_MEMBERS * i + 3] = own[i].exposed_s;
        }
    pl_mpi_all_reduce(group, x, N_MEMBERS * n, MPI_DOUBLE, MPI_SUM);
    for (int i = 0; i < n; i++)
        out[i] = (pl_op_measure){.calls = (int64_t)x[N_MEMBERS * i],
                                 .busy_s = x[N_MEMBERS * i + 1],
                                 .turns_s = x[N_MEMBERS * i + 2],
                                 .exposed_s = x[N_MEMBERS * i + 3]};
    pl_free(x);
}
