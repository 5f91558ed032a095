/* bucket -- arrays that travel alike travel together.
 *
 * Collectives of weights and gradients of one layer, phase and microbatch over the same axes become
 * one collective of many arrays: FSDP gathers a layer at a time, and a small norm vector costs no
 * round of its own. So do the sums that one op makes (the loss's). Gathers of stored weights join
 * at the first of them, everything else at the last, when all its inputs are there. Accumulations
 * of reduced gradients are first moved to the end of their layer, so that they do not stand between
 * the reductions. */
#ifndef PURLIN_PROGRAM_BUCKET_H
#define PURLIN_PROGRAM_BUCKET_H

#include "src/program/program.h"

/** Rewrite the op list of a stage's program, in place. */
void pl_bucket(pl_program *p);

/** Whether two ops belong to one stretch of a program: same phase, layer and microbatch. */
bool pl_same_segment(const pl_op *a, const pl_op *b);

#endif
