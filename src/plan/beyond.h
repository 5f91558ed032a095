/* beyond -- what programs lack, by formula: sequences in pieces (cp), experts (ep), and models that
 * are planned as the nearest one that programs know.
 *
 * A model with experts is built as one whose feed-forward block is as wide as the experts that a
 * token visits; the difference in FLOPs, weights, activations, and what experts send, is added. */
#ifndef PURLIN_PLAN_BEYOND_H
#define PURLIN_PLAN_BEYOND_H

#include "src/plan/candidate.h"
#include "src/roofline/footprint.h"

/** The model that programs are built of for an architecture: L, D, N, H, V and T are its own.
 *
 *   F   three matrices of D x F hold what a token's feed-forward block does: k and shared experts,
 *       or two matrices of D x F * 3/2
 *   K   its own; eight where keys and values are compressed, of about the same size as theirs
 *
 * Local, as is everything here. */
void pl_stand_in(const pl_architecture *a, pl_model_config *m);

/** Parameters of all experts that tokens are routed to. */
double pl_expert_params(const pl_architecture *a);

/** Set c->more for its microbatch, but for remat and interleave, which are kept:
 *
 *   cp       the program attends within a piece, so what pieces see of each other is added, evenly
 *            dealt: 4 N H FLOPs a pair of positions; keys and values are gathered over cp forward
 *            and again backward, their gradients scattered, hidden behind attention as far as it
 *            goes (ring attention)
 *   experts  each layer sends every token to k experts and back, an AllToAll over ep each, twice
 *            forward and twice backward, which nothing hides (book, section 12): to every chip of a
 *            node that holds one of a token's k experts, between nodes once to every node; tp
 *            splits the tokens. Weights are read once a microbatch where that takes longer
 *            than the products. Gradients: E/ep experts over the ranks that share them, in place
 *            of those k that the program reduces over all.
 *   rest     matmul and attention FLOPs, and memory by class (roofline/footprint.h), of the
 *            architecture less those of its stand-in */
void pl_beyond_add(const pl_search_options *o, pl_candidate *c, double micro_batch);

/** What the experts of all layers of a stage send in a step, exposed; 0 where there are none. */
double pl_experts_exposed_s(const pl_search_options *o, const pl_candidate *c);

/** How the architecture, or its stand-in, lies on a candidate's chips, with its microbatch. */
pl_layout pl_candidate_layout(const pl_search_options *o, const pl_candidate *c);

/** Bytes a chip needs at the least: weights, gradients, moments and masters of the architecture. */
double pl_candidate_persistent(const pl_search_options *o, const pl_candidate *c);

#endif
