/* transformer -- writes the logical program of a LLaMA-like transformer: what is computed, with no
 * word about where. Memory order is chosen so that what a collective moves is contiguous: weights
 * keep D (the embedding and the head V) outermost, activations T.
 *
 *   x = embed(tokens)                                     x[T, B, D]
 *   per layer:  h = rmsnorm(x);  q, k, v = h . wq, wk, wv;  rope on q, k;  o = attention(q, k, v)
 *               x = x + o . wo
 *               h = rmsnorm(x);  a = silu(h . w_gate) * (h . w_up);  x = x + a . w_down
 *   logits = rmsnorm(x) . head;  loss = scale * sum of cross-entropies
 *
 * Weights:  embed[V, D]  wq[D, N, H]  wk, wv[D, K, H]  wo[D, N, H]  w_gate, w_up, w_down[D, F]
 *           norms [D]  head[V, D] (none when tied: embed serves)
 * Source: Touvron et al., arXiv 2302.13971; book, section 4. */
#ifndef PURLIN_MODEL_TRANSFORMER_H
#define PURLIN_MODEL_TRANSFORMER_H

#include "src/model/model_config.h"
#include "src/program/program.h"

/* Names of the values that the host fills or reads. */
#define PL_NAME_TOKENS "tokens"       /* [T, B] ids */
#define PL_NAME_TARGETS "targets"     /* [T, B] the ids that follow */
#define PL_NAME_POSITIONS "positions" /* [T, B] index within the sequence */
#define PL_NAME_COSINE "rope.cosine"  /* [P, R]: max_seq x H/2 */
#define PL_NAME_SINE "rope.sine"
#define PL_NAME_SCALE "loss.scale" /* 1 / tokens of the global batch */
#define PL_NAME_LOSS "loss"        /* this rank's terms of the mean */

/** Append the forward pass of one microbatch of T-token sequences to an empty program; its values
 * have no shardings yet. Returns the first value id after those it made. */
int pl_transformer_forward(pl_program *p, const pl_model_config *model);

#endif
