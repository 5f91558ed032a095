/* footprint -- what a training step keeps in the memory of one chip, by class, under any mix of dp,
 * fsdp, tp, pp and ep, from formulas: for models and machines that the engine cannot run, and for
 * the search, which asks what would fit before it builds anything. What the engine runs it places
 * to the byte (src/program/allocate.h); weights, gradients, moments and masters here equal that
 * where degrees divide dims (tests/footprint_test.c). Local. */
#ifndef PURLIN_ROOFLINE_FOOTPRINT_H
#define PURLIN_ROOFLINE_FOOTPRINT_H

#include "src/model/architecture.h"

typedef struct {
    double dp, fsdp, tp, pp; /* degrees */
    double ep;           /* experts are split over so many of the fsdp ranks (of dp's where fsdp is
                          * 1), which therefore share each expert so many times less; 0: as 1 */
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

/** The fullest chip: of the first stage, which holds the embedding and most microbatches, or of the
 * last, which holds final norm and head.
 *
 *   weights      (layers of the stage + end) / (tp fsdp); w bytes each. Not all parts are split tp
 *                ways: keys and values at most K ways, norms and routers not at all. Experts / ep.
 *   gradients, moments  the same, divided by dp too where ZeRO splits them. Moments: with masters.
 *   gathered     two layers' weights / tp, where fsdp or ZeRO-3 splits them
 *   activations  tokens of a chip x layers of the stage x kept elements / tp x microbatches in
 *                flight (first stage: at most pp; last: one)
 *   working      what the loss keeps of one microbatch / tp; one layer's other elements where it is
 *                done again
 *
 * Between blocks activations are split over tp too (sequence parallelism). (Book, sections 4, 5.)
 */
pl_footprint pl_footprint_of(const pl_architecture *a, const pl_layout *layout);

/** Weights, gradients, moments: what is there at any time of a step. */
double pl_footprint_persistent(const pl_footprint *f);

#endif
