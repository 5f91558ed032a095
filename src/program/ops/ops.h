/* ops -- the rows of the table of kinds, one or two to a file of this folder. */
#ifndef PURLIN_PROGRAM_OPS_OPS_H
#define PURLIN_PROGRAM_OPS_OPS_H

#include "src/program/differentiate.h"
#include "src/program/kinds.h"

extern const pl_kind_info pl_op_einsum;
extern const pl_kind_info pl_op_add_arrays;
extern const pl_kind_info pl_op_rmsnorm, pl_op_rmsnorm_backward;
extern const pl_kind_info pl_op_rope, pl_op_rope_backward;
extern const pl_kind_info pl_op_attention, pl_op_attention_backward;
extern const pl_kind_info pl_op_swiglu, pl_op_swiglu_backward;
extern const pl_kind_info pl_op_embed, pl_op_embed_backward;
extern const pl_kind_info pl_op_xent_max, pl_op_xent_sum, pl_op_xent_loss, pl_op_xent_grad;
extern const pl_kind_info pl_op_accumulate, pl_op_fill;
extern const pl_kind_info pl_op_sum_squares, pl_op_clip, pl_op_adamw;
extern const pl_kind_info pl_op_reshard, pl_op_slice;

/** The f32 products of an einsum, as pl_matmul() will get them; shapes has room for one a pair.
 * Returns how many; empty ones are none. */
int pl_einsum_shapes(const pl_op_view *view, pl_matmul_shape *shapes);

/** Bytes of an operand. */
double pl_array_bytes(const pl_array *array);
/** Bytes of all operands: those listed, each counted once. */
double pl_view_bytes(const pl_op_view *view);

#endif
