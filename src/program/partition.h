/* partition -- inserts the communication that a logical program's declared shardings imply.
 *
 * For each op and each mesh axis one question is answered: which dim of the op does the axis split
 * while it runs? The book's four cases of a matrix product (section 3), and their like for every
 * other kind, come out of three rules:
 *
 *   1. If, in every term of the op, a contracted dim is split over the axis in all operands that
 * have it (case 3), or one operand is a pending sum and the op is linear in it, the op computes
 *      terms: its outputs are {U_axis}.
 *   2. Otherwise the axis splits the dim that the declared output says (cases 1 and 4); outputs
 * that lack that dim are {U_axis}.
 *   3. If the output is not split over the axis, neither are the operands (case 2).
 *
 * Operands are then resharded from what they are declared to what is needed, and outputs from what
 * was computed to what they are declared (mesh/reshard.h): AllReduce or ReduceScatter resolves sums
 * as the declared output says, AllGather serves operands. Equal gathers are shared; those of
 * weights only within a phase and layer, since their buffers are meant to be short-lived. Backward
 * collectives come out of the same rules. */
#ifndef PURLIN_PROGRAM_PARTITION_H
#define PURLIN_PROGRAM_PARTITION_H

#include "src/program/program.h"

/** The partitioned program: the same values (same ids) and those that communication adds. */
pl_program *pl_partition(const pl_program *logical);

#endif
