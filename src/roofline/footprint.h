/* footprint -- what a training step keeps in the memory of one chip, by class, under any mix of dp,
 * fsdp, tp and pp, from formulas: for models and machines that the engine cannot run. What it runs
 * it places to the byte (src/program/allocate.h). Local. */
#ifndef PURLIN_ROOFLINE_FOOTPRINT_H
#define PURLIN_ROOFLINE_FOOTPRINT_H

#include "src/model/architecture.h"

typedef struct {
    double dp, fsdp, tp, pp; /* degrees */
    int zero;            /* 0 to 3, over dp: from 1 the moments are split, 2 gradients, 3 weights */
    double sequences;    /* of a microbatch, on all dp x fsdp chips together */
    double microbatches; /* of a step */
    double seq;          /* T */
    double weight_bytes, gradient_bytes, moment_bytes, activation_bytes; /* of an element */
    pl_keep keep;
} pl_layout;

typedef struct {
    double weights_bytes, gradients_bytes, moments_bytes;
    double gathered_bytes; /* of layers whose weights are split and put together for their turn */
    double activations_bytes; /* kept for the backward pass, all microbatches in flight */
    double working_bytes;     /* of the layer at hand when it is done again, and of the loss */
    double total_bytes;
} pl_footprint;

/** The fullest chip: the stage with the most parameters, which holds the embedding or the head.
 *
 *   weights      layers / pp / (tp fsdp), embedding and head / (tp fsdp); w bytes each
 *   gradients, moments  the same, divided by dp too where ZeRO splits them
 *   gathered     two layers' weights / tp, where fsdp or ZeRO-3 splits them
 *   activations  tokens of a chip x layers / pp x kept elements / tp x microbatches in flight
 *                (at most pp), and what the loss keeps of one microbatch / tp
 *   working      one layer's other elements where it is done again
 *
 * Between blocks activations are split over tp too (sequence parallelism). (Book, sections 4, 5.)
 */
pl_footprint pl_footprint_of(const pl_architecture *a, const pl_layout *layout);

#endif
