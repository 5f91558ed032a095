/* swiglu -- the gated activation of the feed-forward layer.
 * Source: Shazeer, arXiv 2002.05202. */
#ifndef PURLIN_KERNELS_SWIGLU_H
#define PURLIN_KERNELS_SWIGLU_H

#include <stdint.h>

/** a[n] = silu(g[n]) * u[n], silu(x) = x / (1 + exp(-x)). a may equal g or u.
 * Cost: 5 n FLOPs and n exponentials; reads 2 n * 4 bytes, writes n * 4. Local. */
void pl_swiglu_forward(int64_t n, const float *g, const float *u, float *a);

/** dg[n] and du[n] from da[n] and forward's inputs. Each of dg and du may equal any of da, g and u,
 * but not the other.
 * Cost: 10 n FLOPs and n exponentials; reads 3 n * 4 bytes, writes 2 n * 4. Local. */
void pl_swiglu_backward(int64_t n, const float *g, const float *u, const float *da, float *dg,
                        float *du);

#endif
