/* exchange -- bytes between two ranks. */
#include "config.h"

#include "src/mesh/exchange.h"

#include "src/base/finish.h"
#include "src/base/panic.h"

enum { TAG = 1, LARGEST = 1 << 28 };

static int part_of(size_t bytes)
{
    return bytes < LARGEST ? (int)bytes : LARGEST;
}

void pl_bytes_send(MPI_Comm comm, int to, const void *data, size_t bytes)
{
    for (const char *at = data; bytes > 0;) {
        MPI_Request request;
        const int n = part_of(bytes);

        PL_MPI(MPI_Isend(at, n, MPI_BYTE, to, TAG, comm, &request));
        pl_mpi_finish(&request, 1);
        at += n;
        bytes -= (size_t)n;
    }
}

void pl_bytes_recv(MPI_Comm comm, int from, void *data, size_t bytes)
{
    for (char *at = data; bytes > 0;) {
        MPI_Request request;
        const int n = part_of(bytes);

        PL_MPI(MPI_Irecv(at, n, MPI_BYTE, from, TAG, comm, &request));
        pl_mpi_finish(&request, 1);
        at += n;
        bytes -= (size_t)n;
    }
}
