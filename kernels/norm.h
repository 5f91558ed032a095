/* norm -- RMSNorm over rows.
 * Source: Zhang & Sennrich, arXiv 1910.07467. */
#ifndef PURLIN_KERNELS_NORM_H
#define PURLIN_KERNELS_NORM_H

#include "src/base/bf16.h"

#include <stdbool.h>
#include <stdint.h>

/** y[R, D] = x[R, D] * rstd[R] * g[D], with rstd = 1 / sqrt(mean over D of x^2 + eps) kept for the
 * backward pass. y may equal x. R or D may be 0 (D = 0 writes rstd = 1 / sqrt(eps)).
 *
 * Order: 64 interleaved sums over D, added pairwise; a sum of squares that f32 does not hold is
 * formed again in f64, ascending, so that rstd is as near for rows of any finite size. Beside an
 * infinity in x, rstd is 0.
 * Cost:  4 R D FLOPs; reads (R + 1) D * 4 bytes, writes (R D + R) * 4. Local. */
void pl_rmsnorm_forward(int64_t R, int64_t D, float eps, const float *x, const float *g, float *y,
                        float *rstd);

/** The same with x, g and y in bf16: arithmetic and rstd in f32, each element of y rounded once.
 * Cost: the same FLOPs; 2 bytes instead of 4 for x, g and y. */
void pl_rmsnorm_forward_bf16(int64_t R, int64_t D, float eps, const pl_bf16 *x, const pl_bf16 *g,
                             pl_bf16 *y, float *rstd);

/** dx[R, D] = base[R, D] + the gradient of x; dg[D] = the gradient of g, or += it when
 * `accumulate_dg`; from dy[R, D] and what forward read and wrote.
 *
 * base may be NULL (0). dx may equal base, dy or x; otherwise nothing overlaps. With R = 0, dg is
 * zeroed unless `accumulate_dg`.
 *
 * Order: over D as forward; dg adds rows ascending within 32 rows, then these ascending. Reads a
 * row twice, the second time from cache. Cost:  10 R D FLOPs (11 with base); reads (2 R D + D + R)
 * * 4 bytes (3 R D with base), writes (R + 1) D * 4. Local.
 */
void pl_rmsnorm_backward(int64_t R, int64_t D, const float *x, const float *g, const float *rstd,
                         const float *dy, const float *base, float *dx, bool accumulate_dg,
                         float *dg);

/** The same with x, g, dy, base and dx in bf16: arithmetic, rstd and dg in f32, each element of dx
 * rounded once.
 * Cost: the same FLOPs; 2 bytes instead of 4 for x, g, dy, base and dx. */
void pl_rmsnorm_backward_bf16(int64_t R, int64_t D, const pl_bf16 *x, const pl_bf16 *g,
                              const float *rstd, const pl_bf16 *dy, const pl_bf16 *base,
                              pl_bf16 *dx, bool accumulate_dg, float *dg);

#endif
