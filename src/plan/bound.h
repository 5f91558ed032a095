/* bound -- how fast a candidate can be at best, and how fast it may be: what the search looks at
 * first, and what it need not look at. */
#ifndef PURLIN_PLAN_BOUND_H
#define PURLIN_PLAN_BOUND_H

#include "src/plan/candidate.h"

/** What a step sends along each axis, by which layouts on the network are compared: forward and
 * backward together gather or scatter activations over tp 8 times a layer, weights and their
 * gradients (twice as large) over fsdp 4 times. Local, as is everything here. */
void pl_bound_loads(const pl_search_options *o, const pl_candidate *c,
                    pl_axis_load loads[PL_MAX_AXES]);

/* No step of a candidate is shorter than bound_s, which is made of: kernels, transfers that nothing
 * hides, gradients over dp, and weights over fsdp, once. */
typedef struct {
    double bound_s, math_s, critical_s, reduce_s, gather_s;
    double stages, slots, chunks; /* of the pipeline: slots are microbatches */
} pl_bounds;

/** The bounds of a candidate that has its wires: all FLOPs at the full rate in the slots of a
 * pipeline that is full, and what nothing hides (tp's transfers, experts' tokens); or the busiest
 * level of the network. */
pl_bounds pl_bounds_of(const pl_search_options *o, const pl_candidate *c,
                       const pl_axis_load *loads);

/** The same with kernels that take seen_s, the least that a candidate alike in tp has been seen to
 * take (0: none): nineteen twentieths of it are taken as certain. */
double pl_bounds_learned_s(const pl_bounds *b, double seen_s);

/** What a step may take, to look at the likely ones first: a pipeline's microbatch grows until
 * gathering weights for each of them is hidden, or the bubble costs more. */
double pl_bounds_guess_s(const pl_bounds *b, double seen_s);

#endif
