/* segments -- one piece of anonymous memory a rank, mapped by all ranks of its host.
 *
 * A segment is a memfd as large as the host's memory; its pages come into being when they are first
 * touched. It has no name in any file system: the ranks of a host tell each other by MPI where
 * /proc shows it, map it and close it. What a peer mapped is checked against what the owner
 * said by MPI, so that ranks in other PID namespaces, or other hosts of the same name, are found
 * out. */
#ifndef PURLIN_MESH_SEGMENTS_H
#define PURLIN_MESH_SEGMENTS_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

/** Bytes at the start of each segment that are spoken for. */
enum { PL_SEGMENT_HEAD_BYTES = 4096 };

typedef struct {
    int n_ranks;   /* of the communicator */
    int rank;      /* this one's */
    int64_t bytes; /* of address space in each segment of this host, a multiple of the page */
    char **base;   /* [n_ranks] where this process sees the segment of each; NULL: another host's */
} pl_segments;

/** Make this rank's segment and map those of its host. The same answer on all ranks: when any host
 * cannot, a warning says why (pl_warn) and it is false; false silently where no host has two ranks,
 * or where the environment of any rank says PURLIN_SHARED_MEMORY=off. Takes at most half of an
 * address-space limit (ulimit -v). Collective over comm. */
bool pl_segments_map(MPI_Comm comm, pl_segments *segments);
/** Local. */
void pl_segments_unmap(pl_segments *segments);

#endif
