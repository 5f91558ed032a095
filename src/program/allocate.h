/* allocate -- gives every value an offset in its class's pool, from its lifetime.
 *
 * A value lives from the first action that touches it to the last; communication touches its arrays
 * from its start to its wait. What persists, and what the host fills, lives always. An op that can
 * work in place takes the storage of an input that nothing reads later. Peak memory per class is
 * therefore known to the byte before anything runs; sizes are those of the largest shards, so that
 * offsets are the same on all ranks of a stage. */
#ifndef PURLIN_PROGRAM_ALLOCATE_H
#define PURLIN_PROGRAM_ALLOCATE_H

#include "src/program/program.h"

/** Set the offset of every value that the actions touch, and pool_bytes. Values that nothing
 * touches keep offset -1. */
void pl_allocate(pl_program *p);

#endif
