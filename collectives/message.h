/* message -- a region as MPI sees it: persistent requests, made at setup.
 *
 * Between hosts a message travels in parts, each so short that MPI libraries send it at once
 * instead of asking the receiver first (Open MPI over TCP: up to 64 KiB). Where several ranks or
 * partners share a link, the question and its answer queue behind other messages' data, and the
 * link idles: four hosts of two ranks at 100 Mbit/s, each sending 512 KiB to one host after
 * another, got 59 Mbit/s of it by whole messages, 93 by parts of 32 KiB. */
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

/** Elements of a part of a message of n elements between hosts: 32 KiB, or more where that would
 * be over 1024 parts (a list that every poll goes through). Local. */
int pl_message_part_elements(int64_t n, pl_dtype dtype);

/** A group's rank, by its number in the whole job: how messages to people name it. Local. */
int pl_world_rank(MPI_Comm comm, int rank);

#endif
