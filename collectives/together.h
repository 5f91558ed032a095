/* together -- all ranks of a host at the same stage: what algorithms in shared memory are made of.
 */
#ifndef PURLIN_COLLECTIVES_TOGETHER_H
#define PURLIN_COLLECTIVES_TOGETHER_H

#include "collectives/schedule.h"

/** Signal, and begin a new round; returns the stage (any for P = 1, which signals nothing). */
int pl_together_signal(pl_schedule *s, int P);
/** Await that stage of all others, in the open round, from rank + 1 on. */
void pl_together_await(pl_schedule *s, int P, int rank, int stage);
/** Signal, then await the same of all others: what everyone did before is over, everywhere. */
void pl_together_meet(pl_schedule *s, int P, int rank);
/** The same region of all P ranks, in order, this one as PL_SELF; lives as long as the schedule. */
const pl_place *pl_together_places(pl_schedule *s, int P, int rank, pl_region region);

#endif
