/* agree -- all ranks take the same branch. */
#ifndef PURLIN_BASE_AGREE_H
#define PURLIN_BASE_AGREE_H

#include "src/base/status.h"

#include <mpi.h>

/** The worst status over the ranks of `comm`; the lowest rank that holds it prints its recorded
 * message to stderr (prefixed with "rank R: " when not every rank holds it), the message is
 * cleared everywhere.
 * Collective over comm. Never blocks inside MPI: polls, then yields. */
pl_status pl_agree(MPI_Comm comm, pl_status status);

#endif
