/* norm_calls -- what the ways to do RMSNorm share: their arguments, the sizes that they work in. */
#ifndef PURLIN_KERNELS_NORM_CALLS_H
#define PURLIN_KERNELS_NORM_CALLS_H

#include "kernels/lanes.h"

#include <math.h>

enum {
    PL_NORM_PART_BYTES = 1024, /* of a row written at a time */
    PL_NORM_AHEAD = 8192, /* bytes of each stream that forward, which reads one, asks for ahead */
    PL_NORM_AHEAD_OF_THREE = 4096, /* backward, which reads three */
    PL_NORM_AHEAD_OF_FOUR = 3072,  /* of a row that is next, beside those three */
    PL_NORM_ROW_IN_TURN = 4096, /* backward: bytes of a row, two of which, of x and dy, stay in L1 */
    PL_NORM_ROWS = 32,             /* backward: rows whose dg is summed apart */
    PL_NORM_COLUMNS = 2048         /* backward: columns at a time */
};

/** What forward is called with; x, g and y are of the call's dtype. */
typedef struct {
    int64_t R, D;
    float eps;
    const void *x, *g;
    void *y;
    float *rstd;
} pl_norm_forward_call;

/** What backward is called with; x, g, dy, base and dx are of the call's dtype. */
typedef struct {
    int64_t R, D;
    const void *x, *g;
    const float *rstd;
    const void *dy, *base;
    void *dx;
    float *dg;
} pl_norm_backward_call;

/** Rows whose sums are formed together, before the first is written, lest one waits for the
 * other's: each ends in a chain of additions and a root. They stay in L1. */
PL_INLINE int64_t pl_norm_batch(const pl_dtype dtype, int64_t D)
{
    enum { BYTES = 4096, MOST = 16 };
    const int64_t row = D * (int64_t)pl_dtype_bytes(dtype);

    return row * MOST <= BYTES ? MOST : row < BYTES ? BYTES / row : 1;
}

/** 1 / sqrt(sum / D + eps), `sum` being that of the squares of x[D]: where f32 does not hold it, it
 * is formed again in f64. */
PL_INLINE float pl_norm_rstd(const pl_dtype dtype, int64_t D, float eps, const void *x, float sum)
{
    const float divisor = D > 0 ? (float)D : 1.0f;
    double squares = 0;

    if (__builtin_expect(!isinf(sum), 1))
        return 1.0f / sqrtf(sum / divisor + eps);
    for (int64_t d = 0; d < D; d++)
        squares += (double)pl_at(dtype, x, d) * (double)pl_at(dtype, x, d);
    return (float)(1.0 / sqrt(squares / (double)D + (double)eps));
}

/** x86-64 with AVX-512 only. */
void pl_norm_forward_avx512(pl_dtype dtype, const pl_norm_forward_call *c);
void pl_norm_backward_avx512(pl_dtype dtype, const pl_norm_backward_call *c);

#endif
