/* clocks -- offsets to rank 0, by ping-pong. */
#include "config.h"

#include "src/trace/clocks.h"

#include "src/base/clock.h"
#include "src/base/panic.h"
#include "src/mesh/exchange.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N_PINGS = 8, KERNEL_NAME = 64 };

/* A name for the running kernel that no other has; "" when it tells none. */
static void name_kernel(char name[KERNEL_NAME])
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");

    memset(name, 0, KERNEL_NAME);
    if (file == NULL)
        return;
    if (fgets(name, KERNEL_NAME, file) == NULL)
        name[0] = '\0';
    fclose(file);
}

pl_ping pl_pings_send(MPI_Comm comm, int r)
{
    pl_ping best = {.round_trip_s = INFINITY};

    for (int i = 0; i < N_PINGS; i++) {
        double theirs_s;
        const double begin_s = pl_now_s();

        pl_bytes_send(comm, r, &begin_s, sizeof begin_s);
        pl_bytes_recv(comm, r, &theirs_s, sizeof theirs_s);
        const double end_s = pl_now_s();
        if (end_s - begin_s < best.round_trip_s)
            best = (pl_ping){.offset_s = theirs_s - (begin_s + end_s) / 2,
                             .round_trip_s = end_s - begin_s};
    }
    return best;
}

void pl_pings_answer(MPI_Comm comm, int from)
{
    for (int i = 0; i < N_PINGS; i++) {
        double theirs_s;

        pl_bytes_recv(comm, from, &theirs_s, sizeof theirs_s);
        const double mine_s = pl_now_s();
        pl_bytes_send(comm, from, &mine_s, sizeof mine_s);
    }
}

/* Rank 0's side: tell each rank in turn whether it shares this kernel, or how far it is off. */
static void serve(MPI_Comm comm, const char *kernel, int n_ranks)
{
    for (int r = 1; r < n_ranks; r++) {
        char theirs[KERNEL_NAME];
        double offset_s = 0;

        pl_bytes_recv(comm, r, theirs, sizeof theirs);
        const char shared = kernel[0] != '\0' && memcmp(kernel, theirs, KERNEL_NAME) == 0;
        pl_bytes_send(comm, r, &shared, sizeof shared);
        if (!shared)
            offset_s = pl_pings_send(comm, r).offset_s;
        pl_bytes_send(comm, r, &offset_s, sizeof offset_s);
    }
}

double pl_clock_offset_s(MPI_Comm comm)
{
    char kernel[KERNEL_NAME], shared;
    double offset_s = 0;
    int rank, n_ranks;

    PL_MPI(MPI_Comm_rank(comm, &rank));
    PL_MPI(MPI_Comm_size(comm, &n_ranks));
    name_kernel(kernel);
    if (rank == 0) {
        serve(comm, kernel, n_ranks);
        return 0;
    }
    pl_bytes_send(comm, 0, kernel, sizeof kernel);
    pl_bytes_recv(comm, 0, &shared, sizeof shared);
    if (!shared)
        pl_pings_answer(comm, 0);
    pl_bytes_recv(comm, 0, &offset_s, sizeof offset_s);
    return offset_s;
}
