/* check -- do both ends of every message mean the same operation?  (see pl_engine_set_checking) */
#ifndef PURLIN_COLLECTIVES_CHECK_H
#define PURLIN_COLLECTIVES_CHECK_H

#include "collectives/schedule.h"
#include "src/base/dtype.h"

#include <mpi.h>

enum { PL_CHECK_NAME = 48 };

/* What a sender has begun, told to one receiver. */
typedef struct {
    uint64_t name_hash; /* of the whole name */
    int64_t tag, run;
    int64_t elements;                /* from this sender to this receiver in messages, all rounds */
    int64_t operation, dtype, whole; /* as pl_schedule_describe() says */
    char name[PL_CHECK_NAME];
} pl_check_note;

typedef struct {
    int n_out, n_in;
    pl_check_note *out, *in, *expected; /* [n_out], [n_in], [n_in] */
    int *in_peer;                       /* [n_in] */
    MPI_Request *requests;              /* [n_in + n_out], persistent */
} pl_check;

/** Make the notes and requests of one transfer: from every rank that sends to this one or shares
 * memory with it, and to every rank for which that holds of this one. Local. */
void pl_check_init(pl_check *check, const pl_schedule *s, pl_dtype dtype, int n_ranks,
                   MPI_Comm comm, int tag, int note_tag, const char *name);
void pl_check_free(pl_check *check);
/** Post the notes of run number `run`. Local. */
void pl_check_start(pl_check *check, int64_t run);
/** All notes having arrived: panic with both names where one is not what was expected. Local. */
void pl_check_compare(const pl_check *check);

#endif
