/* heap_job -- a job that shares memory, for heap_jobs.sh.
 *
 * Usage: heap_job share SEED   every rank writes, all read, again and again
 *        heap_job hold         fill memory, print "held by PID" for every rank, and wait to be
 * killed heap_job stray        free what is no allocation */
#include "config.h"

#include "src/base/finish.h"
#include "src/base/log.h"
#include "src/base/panic.h"
#include "src/mesh/heap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 1 << 20, ROUNDS = 50 };

/** Elements of peers that are not what they should be. */
static int64_t share(pl_heap *heap, int seed, int rank, int n_ranks)
{
    int *x = pl_heap_alloc(heap, N * sizeof *x);
    int64_t n_wrong = 0;

    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N; i += 512)
            x[i] = seed + 100 * round + rank;
        pl_mpi_meet(MPI_COMM_WORLD);
        for (int r = 0; r < n_ranks; r++) {
            const int *theirs = pl_heap_at(heap, r, pl_heap_offset(heap, x));

            for (int i = 0; i < N; i += 512)
                n_wrong += theirs[i] != seed + 100 * round + r;
        }
        pl_mpi_meet(MPI_COMM_WORLD);
    }
    pl_heap_free(heap, x);
    return n_wrong;
}

int main(int argc, char **argv)
{
    int rank, n_ranks;
    int64_t n_wrong = 0;

    PL_MPI(MPI_Init(&argc, &argv));
    PL_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    PL_MPI(MPI_Comm_size(MPI_COMM_WORLD, &n_ranks));
    pl_log_set_rank(rank);

    const char *what = argc > 1 ? argv[1] : "";
    pl_heap *heap = pl_heap_create(MPI_COMM_WORLD);

    if (heap == NULL) {
        pl_print("messages\n");
    } else if (strcmp(what, "share") == 0 && argc == 3) {
        n_wrong = share(heap, atoi(argv[2]), rank, n_ranks);
        if (n_wrong == 0)
            pl_print("shared\n");
    } else if (strcmp(what, "hold") == 0) {
        memset(pl_heap_alloc(heap, N), 1, N);
        printf("held by %ld\n", (long)getpid());
        fflush(stdout);
        for (;;)
            pause();
    } else if (strcmp(what, "stray") == 0) {
        char *x = pl_heap_alloc(heap, 100);

        pl_heap_free(heap, x + 64);
    }
    pl_heap_destroy(heap);
    PL_MPI(MPI_Finalize());
    return n_wrong != 0;
}
