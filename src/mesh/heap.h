/* heap -- memory that the ranks of a host share: where every array lies that a collective touches.
 *
 * Every rank makes one anonymous segment (memfd) as large as the host's memory and maps those of
 * the other ranks of its host; pages come into being when they are first touched. There is no name
 * in any file system, so nothing can be left behind, two jobs cannot meet, and the size of /dev/shm
 * does not matter. Where it cannot be had (an old kernel, a forbidden system call, an address-space
 * limit, ranks that are not in one PID namespace), creation says so once and gives NULL on every
 * rank: collectives then go by messages. */
#ifndef PURLIN_MESH_HEAP_H
#define PURLIN_MESH_HEAP_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pl_heap pl_heap;

/** A heap over the ranks of comm; the same answer on all of them. NULL, with a warning on stderr
 * (pl_warn on comm's rank 0), where any host cannot; NULL silently where no host has two ranks, or
 * where the environment of any rank says PURLIN_SHARED_MEMORY=off. Collective over comm. */
pl_heap *pl_heap_create(MPI_Comm comm);
/** Unmaps everything. All transfers in it must be over on all ranks; before MPI_Finalize. NULL is
 * allowed. Local. */
void pl_heap_destroy(pl_heap *heap);

/** Zeroed memory of this rank in the heap, 64-byte aligned (from 4 KiB up: page aligned). Zero
 * bytes give a valid pointer. With heap NULL: pl_alloc(). Panics when there is none. Local. */
void *pl_heap_alloc(pl_heap *heap, size_t bytes);
/** p comes from pl_heap_alloc (else panics), or is NULL. Its pages go back to the host. No peer may
 * be reading or writing it. Local. */
void pl_heap_free(pl_heap *heap, void *p);

/** Where p lies in this rank's segment, in bytes; -1 if it lies elsewhere. Local. */
int64_t pl_heap_offset(const pl_heap *heap, const void *p);
/** Address here of offset `offset` of the segment of `rank` (of create's comm); NULL if that rank
 * is on another host. Local. */
void *pl_heap_at(const pl_heap *heap, int rank, int64_t offset);
/** The rank of create's comm that is this rank of `comm`; panics when none is. Local. */
int pl_heap_rank(const pl_heap *heap, MPI_Comm comm, int rank);

#endif
