/* optimizer -- writes the update phase of a logical program: reduce gradients, clip by the global
 * norm, AdamW.
 *
 *   g = reshard(grad)            the accumulator under its moments' sharding: AllReduce or
 *                                ReduceScatter, inserted by partition
 *   sums, one per set of axes that gradients are split over: each gradient is summed over exactly
 *   the axes that it is split on
 *   norm, factor = clip(sums, limit);   w, m, v = adamw(w, g, m, v, factor, lr, ...)
 *
 * Weights of another type than f32 have f32 masters `master.<name>` that last over steps and are
 * sharded like the moments: AdamW updates the master and writes the weight, rounded to nearest even.
 *
 * Weight decay applies to tensors of two or more dims. Source: Loshchilov & Hutter, arXiv
 * 1711.05101. */
#ifndef PURLIN_MODEL_OPTIMIZER_H
#define PURLIN_MODEL_OPTIMIZER_H

#include "src/program/program.h"

#define PL_NAME_TOTAL_LOSS "loss.mean" /* over the global batch */
#define PL_NAME_NORM "grad.norm"       /* before clipping */
#define PL_NAME_CLIP "clip.limit"      /* inputs set by the host: 0 for no clipping */
#define PL_NAME_LR "lr"
#define PL_NAME_BIAS1 "adam.bias1" /* 1 - beta1^t, t counted from 1 */
#define PL_NAME_BIAS2 "adam.bias2"
#define PL_MASTER_PREFIX "master." /* of "master.<name of the weight>" */

typedef struct {
    double beta1, beta2, eps, weight_decay;
} pl_adamw_config;

/** Append the op that resolves the loss over all ranks: PL_NAME_TOTAL_LOSS. */
void pl_optimizer_total_loss(pl_program *p);

/** Append the reduction of every weight's accumulator (accumulator[v], from pl_differentiate) to a
 * value `g.<name>` of class moment, for weights w in 0..n_weights_end. reduced[v] receives it. */
void pl_optimizer_reduce(pl_program *p, const int *accumulator, int n_values, int *reduced);

/** Append norm, clipping and AdamW; shardings of all values so far must have been declared. */
void pl_optimizer_update(pl_program *p, const pl_adamw_config *config, const int *reduced,
                         int n_values);

#endif
