/* fuse -- an op that can add to something does so while it writes, where no communication lies
 * between: one pass over memory less. */
#ifndef PURLIN_PROGRAM_FUSE_H
#define PURLIN_PROGRAM_FUSE_H

#include "src/program/program.h"

/** `dw = einsum; grad += dw` becomes `grad += einsum`, in a partitioned program, in place. */
void pl_fuse_accumulations(pl_program *p);

/** `y = a . b; x' = x + y` becomes `x' = x + a . b` (the residual stream behind attention and
 * feed-forward), in a partitioned program, in place. Saves writing and reading y. bf16: y is not
 * rounded on its way. */
void pl_fuse_additions(pl_program *p);

#endif
