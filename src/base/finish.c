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
