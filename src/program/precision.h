/* precision -- the pass that says of what type each array is.
 *
 * Weights that kernels read and activations become bf16; what is small and long summed stays f32:
 * statistics (rstd, lse, the softmax's sums), scalars, gradients of weights, moments, and the
 * masters, f32 weights that AdamW updates and rounds into the working ones (model/optimizer).
 * Products of bf16 accumulate in f32. Everything downstream (kernels, memory, wire bytes, prices)
 * follows the values' types.
 * Source: Micikevicius et al., arXiv 1710.03740 (master weights). */
#ifndef PURLIN_PROGRAM_PRECISION_H
#define PURLIN_PROGRAM_PRECISION_H

#include "src/program/program.h"

/** Give the weights and activations of a forward program (before differentiate) the type `dtype`,
 * PL_F32 or PL_BF16. Statistics, by their kinds' rows, stay f32. Local. */
void pl_set_precision(pl_program *p, pl_dtype dtype);

#endif
