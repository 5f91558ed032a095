/* norm -- RMSNorm, a row at a time; the gradient of g a block of rows at a time. */
#include "config.h"

#include "kernels/norm.h"

#include "kernels/isa.h"
#include "kernels/lanes.h"

#include <math.h>

enum { ROWS = 32, COLUMNS = 64 }; /* dg is summed over blocks of ROWS, COLUMNS at a time */

/** What forward is called with; x, g and y are of the call's dtype. */
typedef struct {
    int64_t R, D;
    float eps;
    const void *x, *g;
    void *y;
    float *rstd;
} forward_call;

/** What backward is called with; x, g, dy, base and dx are of the call's dtype. */
typedef struct {
    int64_t R, D;
    const void *x, *g;
    const float *rstd;
    const void *dy, *base;
    void *dx;
    float *dg;
} backward_call;

/** Sum of a[D] * b[D] * c[D]; c may be NULL (1). */
PL_INLINE float sum_of_products(const pl_dtype dtype, int64_t D, const void *a, const void *b,
                                const void *c)
{
    float lanes[PL_LANES] = {0};
    int64_t d = 0;

    for (; d + PL_LANES <= D; d += PL_LANES)
        for (int l = 0; l < PL_LANES; l++)
            lanes[l] += pl_at(dtype, a, d + l) * pl_at(dtype, b, d + l) *
                        (c != NULL ? pl_at(dtype, c, d + l) : 1.0f);
    for (int l = 0; d < D; d++, l++)
        lanes[l] +=
            pl_at(dtype, a, d) * pl_at(dtype, b, d) * (c != NULL ? pl_at(dtype, c, d) : 1.0f);
    return pl_lanes_sum(lanes);
}

PL_INLINE void forward_body(const pl_dtype dtype, const forward_call *c)
{
    const int64_t D = c->D;

    for (int64_t r = 0; r < c->R; r++) {
        const void *x_r = pl_from(dtype, c->x, r * D), *g = c->g;
        void *y_r = pl_to(dtype, c->y, r * D);
        const float mean = D > 0 ? sum_of_products(dtype, D, x_r, x_r, NULL) / (float)D : 0.0f;
        const float rstd = 1.0f / sqrtf(mean + c->eps);

        c->rstd[r] = rstd;
#pragma GCC ivdep
        for (int64_t d = 0; d < D; d++)
            pl_put(dtype, y_r, d, pl_at(dtype, x_r, d) * rstd * pl_at(dtype, g, d));
    }
}

/** dg[D] += the sum over n_rows rows of dy * x * rstd. */
PL_INLINE void add_dg(const pl_dtype dtype, int64_t n_rows, int64_t D, const void *restrict x,
                      const float *restrict rstd, const void *restrict dy, float *restrict dg)
{
    for (int64_t d0 = 0; d0 < D; d0 += COLUMNS) {
        const int64_t n = D - d0 < COLUMNS ? D - d0 : COLUMNS;
        float sum[COLUMNS] = {0};

        for (int64_t r = 0; r < n_rows; r++)
            for (int64_t d = 0; d < n; d++)
                sum[d] +=
                    pl_at(dtype, dy, r * D + d0 + d) * (pl_at(dtype, x, r * D + d0 + d) * rstd[r]);
        for (int64_t d = 0; d < n; d++)
            dg[d0 + d] += sum[d];
    }
}

/** One row: dx = base + rstd (g dy - x rstd^2 / D sum(g dy x)). */
PL_INLINE void backward_row(const pl_dtype dtype, int64_t D, const void *x, const void *g,
                            float rstd, const void *dy, const void *base, void *dx)
{
    const float pull = sum_of_products(dtype, D, dy, g, x) / (float)D * rstd * rstd * rstd;

    if (base != NULL) {
#pragma GCC ivdep
        for (int64_t d = 0; d < D; d++)
            pl_put(dtype, dx, d,
                   pl_at(dtype, base, d) + (pl_at(dtype, dy, d) * pl_at(dtype, g, d) * rstd -
                                            pl_at(dtype, x, d) * pull));
    } else {
#pragma GCC ivdep
        for (int64_t d = 0; d < D; d++)
            pl_put(dtype, dx, d,
                   pl_at(dtype, dy, d) * pl_at(dtype, g, d) * rstd - pl_at(dtype, x, d) * pull);
    }
}

/** A block of rows gives its share of dg first: dx may overwrite x or dy. */
PL_INLINE void backward_body(const pl_dtype dtype, const backward_call *c)
{
    const int64_t R = c->R, D = c->D;

    for (int64_t r0 = 0; r0 < R; r0 += ROWS) {
        const int64_t end = R - r0 < ROWS ? R : r0 + ROWS;

        add_dg(dtype, end - r0, D, pl_from(dtype, c->x, r0 * D), c->rstd + r0,
               pl_from(dtype, c->dy, r0 * D), c->dg);
        for (int64_t r = r0; r < end; r++)
            backward_row(dtype, D, pl_from(dtype, c->x, r * D), c->g, c->rstd[r],
                         pl_from(dtype, c->dy, r * D), pl_from(dtype, c->base, r * D),
                         pl_to(dtype, c->dx, r * D));
    }
}

PL_INLINE void forward_either(pl_dtype dtype, const forward_call *c)
{
    if (dtype == PL_BF16)
        forward_body(PL_BF16, c);
    else
        forward_body(PL_F32, c);
}

static void forward_generic(pl_dtype dtype, const forward_call *c)
{
    forward_either(dtype, c);
}

PL_AVX2 static void forward_avx2(pl_dtype dtype, const forward_call *c)
{
    forward_either(dtype, c);
}

PL_AVX512 static void forward_avx512(pl_dtype dtype, const forward_call *c)
{
    forward_either(dtype, c);
}

static void forward(pl_dtype dtype, const forward_call *c)
{
    static void (*const run[PL_N_ISA])(pl_dtype, const forward_call *) = {
        forward_generic, forward_avx2, forward_avx512};

    run[pl_isa_vectors()](dtype, c);
}

void pl_rmsnorm_forward(int64_t R, int64_t D, float eps, const float *x, const float *g, float *y,
                        float *rstd)
{
    forward(PL_F32, &(forward_call){R, D, eps, x, g, y, rstd});
}

void pl_rmsnorm_forward_bf16(int64_t R, int64_t D, float eps, const pl_bf16 *x, const pl_bf16 *g,
                             pl_bf16 *y, float *rstd)
{
    forward(PL_BF16, &(forward_call){R, D, eps, x, g, y, rstd});
}

PL_INLINE void backward_either(pl_dtype dtype, const backward_call *c)
{
    if (dtype == PL_BF16)
        backward_body(PL_BF16, c);
    else
        backward_body(PL_F32, c);
}

static void backward_generic(pl_dtype dtype, const backward_call *c)
{
    backward_either(dtype, c);
}

PL_AVX2 static void backward_avx2(pl_dtype dtype, const backward_call *c)
{
    backward_either(dtype, c);
}

PL_AVX512 static void backward_avx512(pl_dtype dtype, const backward_call *c)
{
    backward_either(dtype, c);
}

static void backward(pl_dtype dtype, bool accumulate_dg, const backward_call *c)
{
    static void (*const run[PL_N_ISA])(pl_dtype, const backward_call *) = {
        backward_generic, backward_avx2, backward_avx512};

    for (int64_t d = 0; d < c->D && !accumulate_dg; d++)
        c->dg[d] = 0.0f;
    run[pl_isa_vectors()](dtype, c);
}

void pl_rmsnorm_backward(int64_t R, int64_t D, const float *x, const float *g, const float *rstd,
                         const float *dy, const float *base, float *dx, bool accumulate_dg,
                         float *dg)
{
    backward(PL_F32, accumulate_dg, &(backward_call){R, D, x, g, rstd, dy, base, dx, dg});
}

void pl_rmsnorm_backward_bf16(int64_t R, int64_t D, const pl_bf16 *x, const pl_bf16 *g,
                              const float *rstd, const pl_bf16 *dy, const pl_bf16 *base,
                              pl_bf16 *dx, bool accumulate_dg, float *dg)
{
    backward(PL_BF16, accumulate_dg, &(backward_call){R, D, x, g, rstd, dy, base, dx, dg});
}
