/* norm -- RMSNorm, a row at a time; the gradient of g a block of rows at a time. */
#include "config.h"

#include "kernels/norm.h"

#include "kernels/isa.h"
#include "kernels/lanes.h"

#include <math.h>

enum { ROWS = 32, COLUMNS = 64 }; /* dg is summed over blocks of ROWS, COLUMNS at a time */

/** Sum of a[D] * b[D] * c[D]; c may be NULL (1). */
PL_INLINE float sum_of_products(int64_t D, const float *a, const float *b, const float *c)
{
    float lanes[PL_LANES] = {0};
    int64_t d = 0;

    for (; d + PL_LANES <= D; d += PL_LANES)
        for (int l = 0; l < PL_LANES; l++)
            lanes[l] += a[d + l] * b[d + l] * (c != NULL ? c[d + l] : 1.0f);
    for (int l = 0; d < D; d++, l++)
        lanes[l] += a[d] * b[d] * (c != NULL ? c[d] : 1.0f);
    return pl_lanes_sum(lanes);
}

PL_INLINE void forward_body(int64_t R, int64_t D, float eps, const float *x, const float *g,
                            float *y, float *rstd)
{
    for (int64_t r = 0; r < R; r++) {
        const float *x_r = x + r * D;
        float *y_r = y + r * D;
        const float mean = D > 0 ? sum_of_products(D, x_r, x_r, NULL) / (float)D : 0.0f;
        const float rstd_r = 1.0f / sqrtf(mean + eps);

        rstd[r] = rstd_r;
#pragma GCC ivdep
        for (int64_t d = 0; d < D; d++)
            y_r[d] = x_r[d] * rstd_r * g[d];
    }
}

/** dg[D] += the sum over n_rows rows of dy * x * rstd. */
PL_INLINE void add_dg(int64_t n_rows, int64_t D, const float *restrict x,
                      const float *restrict rstd, const float *restrict dy, float *restrict dg)
{
    for (int64_t d0 = 0; d0 < D; d0 += COLUMNS) {
        const int64_t n = D - d0 < COLUMNS ? D - d0 : COLUMNS;
        float sum[COLUMNS] = {0};

        for (int64_t r = 0; r < n_rows; r++)
            for (int64_t d = 0; d < n; d++)
                sum[d] += dy[r * D + d0 + d] * (x[r * D + d0 + d] * rstd[r]);
        for (int64_t d = 0; d < n; d++)
            dg[d0 + d] += sum[d];
    }
}

/** One row: dx = base + rstd (g dy - x rstd^2 / D sum(g dy x)). */
PL_INLINE void backward_row(int64_t D, const float *x, const float *g, float rstd, const float *dy,
                            const float *base, float *dx)
{
    const float pull = sum_of_products(D, dy, g, x) / (float)D * rstd * rstd * rstd;

    if (base != NULL) {
#pragma GCC ivdep
        for (int64_t d = 0; d < D; d++)
            dx[d] = base[d] + (dy[d] * g[d] * rstd - x[d] * pull);
    } else {
#pragma GCC ivdep
        for (int64_t d = 0; d < D; d++)
            dx[d] = dy[d] * g[d] * rstd - x[d] * pull;
    }
}

/** A block of rows gives its share of dg first: dx may overwrite x or dy. */
PL_INLINE void backward_body(int64_t R, int64_t D, const float *x, const float *g,
                             const float *rstd, const float *dy, const float *base, float *dx,
                             float *dg)
{
    for (int64_t r0 = 0; r0 < R; r0 += ROWS) {
        const int64_t end = R - r0 < ROWS ? R : r0 + ROWS;

        add_dg(end - r0, D, x + r0 * D, rstd + r0, dy + r0 * D, dg);
        for (int64_t r = r0; r < end; r++)
            backward_row(D, x + r * D, g, rstd[r], dy + r * D, base == NULL ? NULL : base + r * D,
                         dx + r * D);
    }
}

static void forward_generic(int64_t R, int64_t D, float eps, const float *x, const float *g,
                            float *y, float *rstd)
{
    forward_body(R, D, eps, x, g, y, rstd);
}

PL_AVX2 static void forward_avx2(int64_t R, int64_t D, float eps, const float *x, const float *g,
                                 float *y, float *rstd)
{
    forward_body(R, D, eps, x, g, y, rstd);
}

PL_AVX512 static void forward_avx512(int64_t R, int64_t D, float eps, const float *x,
                                     const float *g, float *y, float *rstd)
{
    forward_body(R, D, eps, x, g, y, rstd);
}

void pl_rmsnorm_forward(int64_t R, int64_t D, float eps, const float *x, const float *g, float *y,
                        float *rstd)
{
    static void (*const run[PL_N_ISA])(int64_t, int64_t, float, const float *, const float *,
                                       float *,
                                       float *) = {forward_generic, forward_avx2, forward_avx512};

    run[pl_isa_vectors()](R, D, eps, x, g, y, rstd);
}

static void backward_generic(int64_t R, int64_t D, const float *x, const float *g,
                             const float *rstd, const float *dy, const float *base, float *dx,
                             float *dg)
{
    backward_body(R, D, x, g, rstd, dy, base, dx, dg);
}

PL_AVX2 static void backward_avx2(int64_t R, int64_t D, const float *x, const float *g,
                                  const float *rstd, const float *dy, const float *base, float *dx,
                                  float *dg)
{
    backward_body(R, D, x, g, rstd, dy, base, dx, dg);
}

PL_AVX512 static void backward_avx512(int64_t R, int64_t D, const float *x, const float *g,
                                      const float *rstd, const float *dy, const float *base,
                                      float *dx, float *dg)
{
    backward_body(R, D, x, g, rstd, dy, base, dx, dg);
}

void pl_rmsnorm_backward(int64_t R, int64_t D, const float *x, const float *g, const float *rstd,
                         const float *dy, const float *base, float *dx, bool accumulate_dg,
                         float *dg)
{
    static void (*const run[PL_N_ISA])(
        int64_t, int64_t, const float *, const float *, const float *, const float *, const float *,
        float *, float *) = {backward_generic, backward_avx2, backward_avx512};

    for (int64_t d = 0; d < D && !accumulate_dg; d++)
        dg[d] = 0.0f;
    run[pl_isa_vectors()](R, D, x, g, rstd, dy, base, dx, dg);
}
