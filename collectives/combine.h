/* combine -- element by element, the one place where data of several ranks meet. */
#ifndef PURLIN_COLLECTIVES_COMBINE_H
#define PURLIN_COLLECTIVES_COMBINE_H

#include "collectives/schedule.h"
#include "src/base/dtype.h"

/** Every to[n_to][n] <- from[0] + from[1] + ... (or the largest), in that order, in one pass; with
 * one `from` a copy. A `to` may be one of the `from`, at the same address; else they don't overlap.
 * f32 and int32 (wrapping) add in their type; bf16 adds in f32 and rounds once. Max: a NaN in any
 * is a NaN in the result, and max(-0, +0) is +0. `streams`: what is written goes past the caches
 * (for results that will not be read before they would have left them). Local. n (n_from - 1)
 * operations; reads n n_from, writes n n_to elements. */
void pl_combine(pl_dtype dtype, pl_reduction reduction, void *const *to, int n_to,
                const void *const *from, int n_from, int64_t n, bool streams);

/** x[n] <- x[n] (+ or max) y[n]: pl_combine() with x first. */
void pl_combine_into(pl_dtype dtype, pl_reduction reduction, void *x, const void *y, int64_t n);

/** pl_combine() by one of the variants for instruction sets that this CPU can run, numbered from 0
 * (portable); pl_combine() takes the last. All give the same bits (but for the payloads of NaNs).
 * For tests and benches. Local. */
int pl_combine_n_variants(void);
void pl_combine_variant(int variant, pl_dtype dtype, pl_reduction reduction, void *const *to,
                        int n_to, const void *const *from, int n_from, int64_t n, bool streams);

#endif
