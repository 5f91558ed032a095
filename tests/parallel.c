/* parallel -- a runner without forks, and assertions that all ranks take alike. */
#include "config.h"

#include "tests/parallel.h"
#include "src/base/finish.h"
#include "src/base/log.h"
#include "src/base/panic.h"

#include <stdio.h>
#include <stdlib.h>

/* Written by ck_agreed() for the message of the assertion around it. */
static char dissent[96];

bool ck_agreed(MPI_Comm comm, bool condition)
{
    int rank, size, least[2], n_against = 0;
    MPI_Request requests[2];

    PL_MPI(MPI_Comm_rank(comm, &rank));
    PL_MPI(MPI_Comm_size(comm, &size));

    const int against = !condition;
    const int mine[2] = {condition, condition ? size : rank};

    PL_MPI(MPI_Iallreduce(mine, least, 2, MPI_INT, MPI_MIN, comm, &requests[0]));
    PL_MPI(MPI_Iallreduce(&against, &n_against, 1, MPI_INT, MPI_SUM, comm, &requests[1]));
    pl_mpi_finish(requests, 2);
    if (n_against > 0)
        snprintf(dissent, sizeof dissent, "on %d of %d ranks, first rank %d", n_against, size,
                 least[1]);
    return least[0];
}

const char *ck_dissent(void)
{
    return dissent;
}

int ck_parallel_main(int argc, char **argv, Suite *(*make_suite)(void))
{
    int rank;

    PL_MPI(MPI_Init(&argc, &argv));
    PL_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    PL_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    pl_log_set_rank(rank);

    SRunner *runner = srunner_create(make_suite());

    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, rank == 0 ? CK_NORMAL : CK_SILENT);

    const bool good = ck_agreed(MPI_COMM_WORLD, srunner_ntests_failed(runner) == 0);

    srunner_free(runner);
    fflush(stdout);
    PL_MPI(MPI_Finalize());
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
