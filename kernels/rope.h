/* rope -- rotary position embedding, rotate-half order: element i of a head pairs with i + H/2.
 * Source: Su et al., arXiv 2104.09864; the pairing is that of Hugging Face's LLaMA weights. */
#ifndef PURLIN_KERNELS_ROPE_H
#define PURLIN_KERNELS_ROPE_H

#include "src/base/bf16.h"

#include <stdint.h>

/** cosine[max_pos, H/2] and sine[max_pos, H/2] of pos * theta^(-2 i / H), each rounded once from
 * f64. H even. Local. */
void pl_rope_table(int64_t max_pos, int64_t H, double theta, float *cosine, float *sine);

/** y[R, N, H] = x[R, N, H] with the pair (i, i + H/2) of every head turned by the angle of
 * positions[R]; 0 <= positions < the table's max_pos. y may equal x. H even. R, N or H may be 0.
 * Cost: 3 R N H FLOPs; reads R N H * 4 bytes, writes as many. Local. */
void pl_rope_forward(int64_t R, int64_t N, int64_t H, const int32_t *positions, const float *cosine,
                     const float *sine, const float *x, float *y);

/** The same in bf16, arithmetic in f32, each element rounded once; half the bytes. */
void pl_rope_forward_bf16(int64_t R, int64_t N, int64_t H, const int32_t *positions,
                          const float *cosine, const float *sine, const pl_bf16 *x, pl_bf16 *y);

/** dx[R, N, H] = dy[R, N, H] turned back by the same angles (a rotation's transpose is its
 * inverse). dx may equal dy. Cost as forward. Local. */
void pl_rope_backward(int64_t R, int64_t N, int64_t H, const int32_t *positions,
                      const float *cosine, const float *sine, const float *dy, float *dx);

/** The same in bf16, arithmetic in f32, each element rounded once; half the bytes. */
void pl_rope_backward_bf16(int64_t R, int64_t N, int64_t H, const int32_t *positions,
                           const float *cosine, const float *sine, const pl_bf16 *dy, pl_bf16 *dx);

#endif
