/* print -- a stage's program in the book's notation, one statement (statement.h) an op.
 *
 * Statements stand in the order of their ops: a gather before its first reader, a reduction behind
 * the last of its terms. What is started earlier or waited for later says so: prefetched,
 * background. Stretches (phase, layer, microbatch) that differ in names only are printed once. */
#ifndef PURLIN_PROGRAM_PRINT_H
#define PURLIN_PROGRAM_PRINT_H

#include "src/program/program.h"

#include <stdio.h>

/** Print a program that has its actions (after overlap) as the rank at `coords` runs it; with
 * `all`, every stretch. Bytes per rank are those that this rank sends. Local. */
void pl_program_print(FILE *out, const pl_program *p, pl_coords coords, bool all);

#endif
