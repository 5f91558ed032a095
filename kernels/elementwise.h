/* elementwise -- the plain loops: add, copy, convert, scale, zero, sum of squares, the hunt for
 * NaNs. */
#ifndef PURLIN_KERNELS_ELEMENTWISE_H
#define PURLIN_KERNELS_ELEMENTWISE_H

#include "src/base/bf16.h"

#include <stdint.h>

/** y[n] = a[n] + b[n]; y may equal a or b. Cost: n FLOPs; reads 2 n * 4 bytes, writes n * 4. Local.
 */
void pl_add(int64_t n, const float *a, const float *b, float *y);

/** The same in bf16, each sum formed in f32 and rounded once; half the bytes. */
void pl_add_bf16(int64_t n, const pl_bf16 *a, const pl_bf16 *b, pl_bf16 *y);

/** y[n] = x[n]; y may equal x, else no overlap. Cost: reads n * 4 bytes, writes n * 4. Local. */
void pl_copy(int64_t n, const float *x, float *y);

/** The same of bf16; half the bytes. */
void pl_copy_bf16(int64_t n, const pl_bf16 *x, pl_bf16 *y);

/** y[n] = x[n], rounded to nearest, ties to even; NaNs stay NaNs, what rounds above the largest
 * bf16 becomes infinite, subnormals are kept. No overlap. Cost: reads n * 4 bytes, writes n * 2.
 * Local. */
void pl_bf16_from_f32(int64_t n, const float *x, pl_bf16 *y);

/** y[n] = x[n], exactly. No overlap. Cost: reads n * 2 bytes, writes n * 4. Local. */
void pl_f32_from_bf16(int64_t n, const pl_bf16 *x, float *y);

/** y[n] = factor * x[n]; y may equal x. Cost: n FLOPs; reads n * 4 bytes, writes n * 4. Local. */
void pl_scale(int64_t n, float factor, const float *x, float *y);

/** y[n] = 0. Cost: writes n * 4 bytes. Local. */
void pl_zero(int64_t n, float *y);

/** The sum of x^2 over x[n], in f64 (each square is exact).
 * Order: 16 interleaved sums, added pairwise. Cost: 2 n FLOPs; reads n * 4 bytes. Local. */
double pl_sum_of_squares(const float *x, int64_t n);

/** The least i with x[i] infinite or NaN, -1 when there is none. Cost: reads n * 4 bytes. Local. */
int64_t pl_first_non_finite(const float *x, int64_t n);

/** The same in bf16; half the bytes. For checks: one element at a time. */
int64_t pl_first_non_finite_bf16(const pl_bf16 *x, int64_t n);

#endif
