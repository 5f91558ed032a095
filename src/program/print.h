/* print -- a stage's program in the book's notation, one statement a line:
 *
 *   ffn.w_gate[D, F_tp] = AllGather_fsdp(ffn.w_gate[D_fsdp, F_tp])       98,304 B/rank  prefetched
 *   ffn.gate[T, B_fsdp, F_tp] = ffn.norm.out[T, B_fsdp, D] *_D ffn.w_gate[D, F_tp]     50.3 MFLOP
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

/** What an op does, in a word: "einsum", "AllGather_fsdp", "AllReduceMax_tp", "Send_pp". Local. */
void pl_op_verb(const pl_program *p, const pl_op *op, char *text, size_t size);

/** Bytes that the rank at `coords` sends in a communication; 0 for any other op. Local. */
int64_t pl_op_sent_bytes(const pl_program *p, const pl_op *op, pl_coords coords);

#endif
