/* message -- a region as MPI sees it: persistent requests, made at setup. */
#ifndef PURLIN_COLLECTIVES_MESSAGE_H
#define PURLIN_COLLECTIVES_MESSAGE_H

#include "collectives/schedule.h"
#include "src/base/dtype.h"

#include <mpi.h>

/** Where a schedule's arrays lie. */
typedef struct {
    pl_dtype dtype;
    void *const *arrays; /* [n_arrays] */
    int n_arrays;
    void *scratch;
} pl_memory;

/** First element of a piece of this rank's arrays or scratch; panics for an array that is not there
 * (staging is not known here: it never travels as a message). */
void *pl_memory_at(const pl_memory *memory, pl_piece piece);

/** Make the inactive persistent requests that send (or receive) `region`, one for each chunk of at
 * most chunk_elements, in order; returns how many. types[i] is the datatype made for requests[i],
 * to be freed after it, or MPI_DATATYPE_NULL. Local. */
int pl_message_init(const pl_memory *memory, pl_region region, bool is_send, int peer, int tag,
                    MPI_Comm comm, int chunk_elements, MPI_Request *requests, MPI_Datatype *types);

/** A group's rank, by its number in the whole job: how messages to people name it. Local. */
int pl_world_rank(MPI_Comm comm, int rank);

#endif
