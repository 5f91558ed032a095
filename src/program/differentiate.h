/* differentiate -- adds the backward pass to a logical program (reverse mode).
 *
 * Ops are visited last to first; each kind's `differentiate` asks for the gradients of its outputs
 * and contributes to those of its inputs. A gradient is summed when its value's producer is
 * reached: products for one value become one einsum of many pairs, so dh = dq.wq + dk.wk + dv.wv is
 * one op and its pending sum is resolved once. A contribution to a weight's gradient is emitted at
 * once and followed by PL_ACCUMULATE into the weight's accumulator `grad.<name>`, one per weight,
 * which outlives the microbatch. */
#ifndef PURLIN_PROGRAM_DIFFERENTIATE_H
#define PURLIN_PROGRAM_DIFFERENTIATE_H

#include "src/program/kinds.h"

/** Append the backward ops of everything before to `p`. `seed` ops (those without gradients of
 * their own, like the loss) start it. accumulator[v] receives, for each weight v, its accumulator's
 * value id (room for p->n_values entries as they were before the call), PL_NONE elsewhere. */
void pl_differentiate(pl_program *p, int *accumulator);

/* For the kinds' differentiate functions. */

/** The program that is being extended. */
pl_program *pl_tape_program(pl_tape *tape);
/** The gradient of v, summed now; PL_NONE when nothing depends on v. */
int pl_tape_gradient(pl_tape *tape, int v);
/** What has been contributed to v so far as one value, taken off the tape, or PL_NONE: for a kind
 * that adds its own contribution to it in passing. */
int pl_tape_take(pl_tape *tape, int v);
/** Value `g` is a term of v's gradient. */
void pl_tape_contribute(pl_tape *tape, int v, int g);
/** The einsum of a and b, in v's dims, is a term of v's gradient. */
void pl_tape_contribute_product(pl_tape *tape, int v, int a, int b);
/** A new value to hold a gradient of v: v's dims, layer and class (weights: gradient). */
int pl_tape_new_gradient(pl_tape *tape, int v);
/** Append a backward op of `forward`'s layer. */
int pl_tape_op(pl_tape *tape, const pl_op *forward, pl_kind kind, int n_in, const int *in,
               int n_out, const int *out);

#endif
