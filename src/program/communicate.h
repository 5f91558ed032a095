/* communicate -- a communication op as a schedule: the one source for running, pricing, counting
 * and simulating it. */
#ifndef PURLIN_PROGRAM_COMMUNICATE_H
#define PURLIN_PROGRAM_COMMUNICATE_H

#include "collectives/collective.h"
#include "collectives/cost.h"
#include "src/program/program.h"

/** The type of everything that the op moves. */
pl_dtype pl_op_dtype(const pl_program *p, const pl_op *op);

/** This rank's schedule of a communication op. Array i of the schedule is value values[i] of
 * pl_op_arrays(). *algorithm (may be NULL) receives the algorithm's name. Free with
 * pl_schedule_destroy(). Local. */
pl_schedule *pl_op_schedule(const pl_program *p, const pl_op *op, pl_coords coords,
                            const char **algorithm);

/** Bytes that the rank at `coords` sends in a communication; 0 for any other op. Local. */
int64_t pl_op_sent_bytes(const pl_program *p, const pl_op *op, pl_coords coords);

/** The values whose storage the schedule's arrays are, in order; returns how many (at most n_in +
 * n_out). */
int pl_op_arrays(const pl_op *op, int *values);

/** Where the ranks of the op's group at `coords` are; memory from `arena`. Local. */
pl_site pl_op_site(const pl_program *p, const pl_op *op, pl_coords coords, pl_arena *arena);

/** What carries the op's group, where the fabric has wires. Local. */
pl_wires pl_op_wires(const pl_program *p, const pl_op *op);

/** The most scratch that any rank needs for the op, in elements. */
int64_t pl_op_scratch_elements(const pl_program *p, const pl_op *op);

/** The axes of the group that the op runs over: op->axes, or pp for sends and receives. */
pl_axes pl_op_group(const pl_program *p, const pl_op *op);

#endif
