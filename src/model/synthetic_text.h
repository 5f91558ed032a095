/* synthetic_text -- a text whose entropy per token is known exactly: what is left of the loss when
 * there is nothing more to learn.
 *
 * A Markov chain over A = min(V, 32) symbols. Each symbol has k = min(4, A) successors, taken with
 * probability 1/2, 1/4, ... and the last twice (k = 4: 1/2, 1/4, 1/8, 1/8). All rows of the
 * transition matrix hold the same numbers, so the entropy rate is that of one row whatever the
 * stationary distribution, and all probabilities are dyadic, so they are drawn exactly. The
 * successors of s are k s, ..., k s + k - 1 (mod A), in an order that turns with s: this graph
 * reaches every symbol from every other in ceil(log_k A) steps.
 *
 * Source of the graph: Reddy, Pradhan & Kuhl, Directed graphs with minimum diameter and maximal
 * connectivity, Oakland University, 1980. All functions are local. */
#ifndef PURLIN_MODEL_SYNTHETIC_TEXT_H
#define PURLIN_MODEL_SYNTHETIC_TEXT_H

#include <stdint.h>

enum { PL_SYNTHETIC_TOKENS = 1 << 20 };

/** text[n]: the chain's first n tokens, as a function of (vocab, seed); all ids are below vocab,
 * and are letters where vocab has room for ASCII. */
void pl_synthetic_text(int64_t vocab, uint64_t seed, int64_t n, uint8_t *text);

/** Entropy of a token given those before it, in nats (k = 4: 7/4 ln 2 = 1.2130). */
double pl_synthetic_entropy_nats(int64_t vocab);

#endif
