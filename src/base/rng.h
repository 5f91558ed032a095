/* rng -- random numbers as a function of (seed, stream, index): no state, so any rank can make any
 * element, and every mesh starts from the same model and sees the same batches. */
#ifndef PURLIN_BASE_RNG_H
#define PURLIN_BASE_RNG_H

#include <stdint.h>

/** 64 well-mixed bits of (seed, stream, index). Local. */
uint64_t pl_rng_bits(uint64_t seed, uint64_t stream, uint64_t index);
/** A stream number for a name (an array's, say). */
uint64_t pl_rng_stream(const char *name);
/** Uniform in [0, 1), 53 bits. */
double pl_rng_uniform(uint64_t seed, uint64_t stream, uint64_t index);
/** Standard normal (Box-Muller of two uniforms of its own). */
double pl_rng_normal(uint64_t seed, uint64_t stream, uint64_t index);
/** Uniform integer in [0, n), n >= 1. */
int64_t pl_rng_below(uint64_t seed, uint64_t stream, uint64_t index, int64_t n);

#endif
