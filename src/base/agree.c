/* agree -- a MAX-allreduce of the status, then one message. */
#include "config.h"

#include "src/base/agree.h"
#include "src/base/finish.h"
#include "src/base/panic.h"

#include <stdio.h>

/** The speaker's line: which rank it came from is news only when other ranks fared better. */
static void speak(int held_by_all)
{
    const char *message = pl_status_message();
    int world_rank;

    if (message[0] == '\0')
        message = "refused, and no reason was recorded";
    PL_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &world_rank));
    if (held_by_all)
        fprintf(stderr, "%s\n", message);
    else
        fprintf(stderr, "rank %d: %s\n", world_rank, message);
    fflush(stderr);
}

pl_status pl_agree(MPI_Comm comm, pl_status status)
{
    const int mine = (int)status;
    int worst = mine, rank, size;

    pl_mpi_all_reduce(comm, &worst, 1, MPI_INT, MPI_MAX);
    if (worst != PL_OK) {
        PL_MPI(MPI_Comm_rank(comm, &rank));
        PL_MPI(MPI_Comm_size(comm, &size));

        /* {the lowest rank that holds the worst status, whether every rank holds it} */
        int least[2] = {mine == worst ? rank : size, mine == worst};

        pl_mpi_all_reduce(comm, least, 2, MPI_INT, MPI_MIN);
        if (least[0] == rank)
            speak(least[1]);
    }
    pl_status_clear();
    return (pl_status)worst;
}
