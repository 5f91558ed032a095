/* exchange -- single messages that are waited for politely: ranks may share a core. */
#ifndef PURLIN_MESH_EXCHANGE_H
#define PURLIN_MESH_EXCHANGE_H

#include <mpi.h>
#include <stddef.h>

/** Send bytes to, or receive them from, a rank: polls, then yields; any size (cut into messages
 * under MPI's int). Returns when `data` may be used again. */
void pl_bytes_send(MPI_Comm comm, int to, const void *data, size_t bytes);
void pl_bytes_recv(MPI_Comm comm, int from, void *data, size_t bytes);

#endif
