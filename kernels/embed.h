/* embed -- rows of the embedding table, which may be sharded over the vocabulary. */
#ifndef PURLIN_KERNELS_EMBED_H
#define PURLIN_KERNELS_EMBED_H

#include "src/base/bf16.h"

#include <stdbool.h>
#include <stdint.h>

/** x[R, D] = rows tokens[R] of a table of which e[V, D] are the rows from v_begin on. A token
 * outside [v_begin, v_begin + V) gives a row of zeros, so that shards sum to the whole. Any extent
 * may be 0. Cost: no FLOPs; reads R D * 4 bytes at most, writes R D * 4. Local. */
void pl_embed_forward(int64_t R, int64_t V, int64_t D, int64_t v_begin, const int32_t *tokens,
                      const float *e, float *x);

/** The same in bf16, copied as it is; half the bytes. */
void pl_embed_forward_bf16(int64_t R, int64_t V, int64_t D, int64_t v_begin, const int32_t *tokens,
                           const pl_bf16 *e, pl_bf16 *x);

/** de[V, D] = the sum of dx[R, D] over the rows with each token, or += it when `accumulate`; tokens
 * outside the shard are ignored. Rows of de are fetched ahead of their turn.
 * Order: rows ascending.
 * Cost:  R D FLOPs; reads 2 R D * 4 bytes, writes R D * 4, and V D * 4 unless `accumulate`. Local.
 */
void pl_embed_backward(int64_t R, int64_t V, int64_t D, int64_t v_begin, const int32_t *tokens,
                       const float *dx, bool accumulate, float *de);

/** The same from dx in bf16 into de in f32; reads R D * 2 bytes less. */
void pl_embed_backward_bf16(int64_t R, int64_t V, int64_t D, int64_t v_begin, const int32_t *tokens,
                            const pl_bf16 *dx, bool accumulate, float *de);

#endif
