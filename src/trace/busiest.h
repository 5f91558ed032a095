/* busiest -- of ranks that run one program, the one that the others wait for.
 *
 * A prediction is of that rank: what slows some ranks only (calibration takes messages beside
 * kernels from the rank of whose core they take most) slows the others too, who then wait for them.
 * What they wait is no communication. */
#ifndef PURLIN_TRACE_BUSIEST_H
#define PURLIN_TRACE_BUSIEST_H

#include "src/program/run.h"

#include <mpi.h>

/** What the rank of `group` measured whose exposed times add up to the least, the first of equals,
 * on all of them: own[] and out[] (not the same) hold its n ops. Collective over group. */
void pl_busiest_measures(MPI_Comm group, const pl_op_measure *own, int n, pl_op_measure *out);

#endif
