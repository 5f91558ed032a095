/* swiglu -- the gated activation of the feed-forward layer.
 * Source: Shazeer, arXiv 2002.05202. */
#ifndef PURLIN_KERNELS_SWIGLU_H
#define PURLIN_KERNELS_SWIGLU_H

#include "src/base/bf16.h"

#include <stdint.h>

/** a[n] = silu(g[n]) * u[n], silu(x) = x / (1 + exp(-x)), 0 below x = -87. a may equal g or u; a
 * large one that equals neither bypasses the caches (kernels/bypass.h).
 * Cost: 5 n FLOPs and n exponentials; reads 2 n * 4 bytes, writes n * 4. Local. */
void pl_swiglu_forward(int64_t n, const float *g, const float *u, float *a);

/** The same in bf16, arithmetic in f32, each element rounded once; half the bytes. With AVX-512 the
 * exponential is right to 2^-19 only (kernels/avx512.h), a thousandth of what rounding to bf16 may
 * lose; with AVX512-BF16 subnormal results are 0. */
void pl_swiglu_forward_bf16(int64_t n, const pl_bf16 *g, const pl_bf16 *u, pl_bf16 *a);

/** dg[n] and du[n] from da[n] and forward's inputs. Each of dg and du may equal any of da, g and u,
 * but not the other. Large ones that equal none bypass the caches with AVX-512, where both begin at
 * the same place of a line.
 * Cost: 10 n FLOPs and n exponentials; reads 3 n * 4 bytes, writes 2 n * 4. Local. */
void pl_swiglu_backward(int64_t n, const float *g, const float *u, const float *da, float *dg,
                        float *du);

/** The same in bf16, as forward's; half the bytes. */
void pl_swiglu_backward_bf16(int64_t n, const pl_bf16 *g, const pl_bf16 *u, const pl_bf16 *da,
                             pl_bf16 *dg, pl_bf16 *du);

#endif
