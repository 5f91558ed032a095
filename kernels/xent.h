/* xent -- cross-entropy over a vocabulary that may be sharded.
 *
 * Each shard holds logits[R, V] of the vocabulary rows from v_begin on. Three partials make the
 * loss: m (combined over shards by max), then s and picked (by sum): loss_r = log s_r + m_r -
 * picked_r. V may be 0 (an empty shard), R too. Targets are indices into the whole vocabulary. */
#ifndef PURLIN_KERNELS_XENT_H
#define PURLIN_KERNELS_XENT_H

#include "src/base/bf16.h"

#include <stdbool.h>
#include <stdint.h>

/** m[R] = the largest of this shard's logits, -infinity when V = 0. NaNs are skipped here; they
 * reach s. Cost: R V FLOPs; reads R V * 4 bytes, writes R * 4. Local. */
void pl_xent_max(int64_t R, int64_t V, const float *logits, float *m);

/** The same of logits in bf16, which are 2 bytes. */
void pl_xent_max_bf16(int64_t R, int64_t V, const pl_bf16 *logits, float *m);

/** s[R] = sum over this shard of exp(logits - m), m[R] being the maximum over all shards; picked[R]
 * = the target's logit where this shard holds it, else 0.
 * Order: 64 interleaved sums over V, added pairwise.
 *        Terms below e^-87 are 0.
 * Cost:  2 R V FLOPs and R V exponentials; reads (R V + 2 R) * 4 bytes, writes 2 R * 4. Local. */
void pl_xent_sum(int64_t R, int64_t V, int64_t v_begin, const float *logits, const int32_t *targets,
                 const float *m, float *s, float *picked);

/** The same of logits in bf16, which are 2 bytes; arithmetic in f32. With AVX-512 each exponential
 * is within PL_EXP_NARROW_ERROR of itself, 1 at m, and 0 below e^-86.5 (kernels/avx512.h): so is s,
 * and the loss is off by no more, where a rounding of a logit to bf16 may be 2^-9 of it. */
void pl_xent_sum_bf16(int64_t R, int64_t V, int64_t v_begin, const pl_bf16 *logits,
                      const int32_t *targets, const float *m, float *s, float *picked);

/** *loss = scale * sum over R of (log s + m - picked), or += it when `accumulate`; m, s and picked
 * are those of the whole vocabulary.
 * Order: rows ascending, in f64, rounded once. Cost: 4 R FLOPs; reads 3 R * 4 bytes, and
 * scale; writes *loss. Local. */
void pl_xent_loss(int64_t R, const float *m, const float *s, const float *picked, double scale,
                  bool accumulate, float *loss);

/** dlogits[R, V] = scale * (exp(logits - m) / s - [v is the target]): the gradient of loss. dlogits
 * may equal logits.
 * Cost: 2 R V FLOPs and R V exponentials; reads (R V + 3 R) * 4 bytes and scale, writes R V * 4.
 *        A large dlogits apart from logits bypasses the caches (kernels/bypass.h). Local. */
void pl_xent_grad(int64_t R, int64_t V, int64_t v_begin, const float *logits,
                  const int32_t *targets, const float *m, const float *s, double scale,
                  float *dlogits);

/** The same with logits and dlogits in bf16: arithmetic in f32, each element rounded once (the
 * target's too); exponentials as in pl_xent_sum_bf16, and with AVX512-BF16 subnormal results are 0.
 * Cost: the same FLOPs; 2 bytes instead of 4 for logits and dlogits. */
void pl_xent_grad_bf16(int64_t R, int64_t V, int64_t v_begin, const pl_bf16 *logits,
                       const int32_t *targets, const float *m, const float *s, double scale,
                       pl_bf16 *dlogits);

#endif
