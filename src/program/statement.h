/* statement -- an op in the book's notation:
 *
 *   ffn.w_gate[D, F_tp] = AllGather_fsdp(ffn.w_gate[D_fsdp, F_tp])       98,304 B/rank  prefetched
 *   ffn.gate[T, B_fsdp, F_tp] = ffn.norm.out[T, B_fsdp, D] *_D ffn.w_gate[D, F_tp]     50.3 MFLOP
 */
#ifndef PURLIN_PROGRAM_STATEMENT_H
#define PURLIN_PROGRAM_STATEMENT_H

#include "src/program/program.h"

#include <stdio.h>

/** What an op does, in a word: "einsum", "AllGather_fsdp", "AllReduceMax_tp", "Send_pp". Local. */
void pl_op_verb(const pl_program *p, const pl_op *op, char *text, size_t size);

/** Print an op with what it costs the rank at `coords`: the bytes that it sends, or FLOPs. Long
 * statements are broken between operands; of many operands some are counted only; arrays that
 * travel together have a line each. Local. */
void pl_statement_print(FILE *out, const pl_program *p, const pl_op *op, pl_coords coords);

/** Whether weights and activations are bf16: statements then mark what is not. */
bool pl_program_is_mixed(const pl_program *p);

#endif
