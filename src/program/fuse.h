/* fuse -- an op that can add to its output writes into the accumulator itself: `dw = einsum; grad
 * += dw` becomes `grad += einsum` where no communication lies between. */
#ifndef PURLIN_PROGRAM_FUSE_H
#define PURLIN_PROGRAM_FUSE_H

#include "src/program/program.h"

/** Fuse accumulations of a partitioned program, in place. */
void pl_fuse_accumulate(pl_program *p);

#endif
