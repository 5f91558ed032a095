/* check -- do both ends of every message mean the same operation?  (see pl_engine_set_checking) */
#ifndef PURLIN_COLLECTIVES_CHECK_H
#define PURLIN_COLLECTIVES_CHECK_H

#include "collectives/schedule.h"
#include "src/base/dtype.h"

#include <mpi.h>

enum { PL_CHECK_NAME = 48 };

/* What a rank has begun, told to a peer. */
typedef struct {
    uint64_t name_hash; /* of the whole name */
    int64_t tag, run;
    int64_t elements;                /* from this rank to that peer in messages, all rounds */
    int64_t operation, dtype, whole; /* as pl_schedule_describe() says */
    char name[PL_CHECK_NAME];
} pl_check_note;

typedef struct {
    MPI_Comm comm; /* of the transfer, not owned */
    int n;         /* peers */
    int *peer;
    pl_check_note *out, *in, *expected; /* [n] of each peer: told, heard, what should be heard */
    MPI_Request *requests;              /* [2 n] persistent: receives, then sends */
} pl_check;

/** Make the notes and requests of one transfer: to and from every rank that it exchanges messages
 * or shares memory with, in either direction, so that a rank is missed that only receives. Local.
 */
void pl_check_init(pl_check *check, const pl_schedule *s, pl_dtype dtype, int n_ranks,
                   MPI_Comm comm, int tag, int note_tag, const char *name);
void pl_check_free(pl_check *check);
/** Post the notes of run number `run`. Local. */
void pl_check_start(pl_check *check, int64_t run);
/** All notes having arrived: panic with both names where one is not what was expected. Local. */
void pl_check_compare(const pl_check *check);

#endif
