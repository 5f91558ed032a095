/* matmul_int8 -- weights as signed bytes, a scale for each output channel: the forward products of
 * inference, where weights are read once and never change.
 *
 * w[k, n] is about scale[n] q[k, n], q in -127..127; activations become bytes row by row while they
 * are multiplied, a scale for each row; the products of bytes are summed as integers, exactly. */
#ifndef PURLIN_KERNELS_MATMUL_INT8_H
#define PURLIN_KERNELS_MATMUL_INT8_H

#include "kernels/matmul.h"

#include <stddef.h>

/* Longer sums could overflow: 255 * 127 * 65536 < 2^31. */
enum { PL_INT8_MOST_K = 65536 };

/** op(w)[K, N] as bytes, packed for the ISA in use, which must be in use still when it is filled or
 * multiplied; K <= PL_INT8_MOST_K. */
pl_int8_weights *pl_int8_weights_create(int64_t K, int64_t N);
void pl_int8_weights_destroy(pl_int8_weights *weights); /* NULL is allowed */

/** Bytes that it takes: about K N + 8 N. */
size_t pl_int8_weights_bytes(int64_t K, int64_t N);

/** Quantise op(w)[K, N] of `dtype` (PL_F32 or PL_BF16) symmetrically, channel by channel.
 *
 * scale[n] = max_k |w[k, n]| / 127; |w - scale q| <= scale (1/2 + 2^-15). A channel whose largest
 * is below 2^-100 becomes 0; one that holds a NaN or an infinity gives NaNs.
 * Cost: reads w twice. Local. */
void pl_int8_weights_quantize(pl_int8_weights *weights, pl_trans trans, pl_dtype dtype,
                              const void *w, int64_t ldw);

/** Take them as they are: op(q)[K, N], none of them -128, and scale[N]. Local. */
void pl_int8_weights_set(pl_int8_weights *weights, pl_trans trans, const int8_t *q, int64_t ldq,
                         const float *scale);

/** What was set or computed, for a file or a test: q[K, N], scale[N]. Local. */
void pl_int8_weights_get(const pl_int8_weights *weights, int8_t *q, float *scale);

#endif
