/* norm -- RMSNorm, a row at a time; the gradient of g a block of rows at a time. */
#include "config.h"

#include "kernels/norm.h"

#include "kernels/isa.h"
#include "kernels/lanes.h"
#include "kernels/bypass.h"

#include <math.h>

enum {
    ROWS = 32,
    COLUMNS = 512, /* backward takes ROWS by COLUMNS at a time */
    CHAINS = 4 * PL_LANES, /* partial sums: an addition takes longer than a load */
    TILE = 1024            /* elements of bf16 widened at a time; a multiple of CHAINS */
};

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

/** lanes += a[n] * b[n] * c[n], or a * b. */
PL_INLINE void add_products(const bool three, int64_t n, const float *restrict a,
                            const float *restrict b, const float *restrict c, float *lanes)
{
    int64_t d = 0;

    for (; d + CHAINS <= n; d += CHAINS)
        for (int l = 0; l < CHAINS; l++)
            lanes[l] += a[d + l] * b[d + l] * (three ? c[d + l] : 1.0f);
    for (int l = 0; d < n; d++, l++)
        lanes[l] += a[d] * b[d] * (three ? c[d] : 1.0f);
}

/** The sum of CHAINS partial sums, which are overwritten. */
PL_INLINE float chains_sum(float *lanes)
{
    for (int l = 0; l < PL_LANES; l++)
        lanes[l] = (lanes[l] + lanes[l + PL_LANES]) +
                   (lanes[l + 2 * PL_LANES] + lanes[l + 3 * PL_LANES]);
    return pl_lanes_sum(lanes);
}

/** Sum of x[D]^2. */
PL_INLINE float sum_of_squares(const pl_dtype dtype, int64_t D, const void *x)
{
    float lanes[CHAINS] = {0}, wide[TILE];

    if (dtype == PL_F32)
        add_products(false, D, x, x, NULL, lanes);
    for (int64_t d = 0; d < D && dtype == PL_BF16; d += TILE) {
        const int64_t n = D - d < TILE ? D - d : TILE;

        pl_widen(dtype, n, pl_from(dtype, x, d), wide);
        add_products(false, n, wide, wide, NULL, lanes);
    }
    return chains_sum(lanes);
}

/** Sum of a[D] * b[D] * c[D]. */
PL_INLINE float sum_of_products(const pl_dtype dtype, int64_t D, const void *a, const void *b,
                                const void *c)
{
    float lanes[CHAINS] = {0}, wide[3][TILE];

    if (dtype == PL_F32)
        add_products(true, D, a, b, c, lanes);
    for (int64_t d = 0; d < D && dtype == PL_BF16; d += TILE) {
        const int64_t n = D - d < TILE ? D - d : TILE;

        pl_widen(dtype, n, pl_from(dtype, a, d), wide[0]);
        pl_widen(dtype, n, pl_from(dtype, b, d), wide[1]);
        pl_widen(dtype, n, pl_from(dtype, c, d), wide[2]);
        add_products(true, n, wide[0], wide[1], wide[2], lanes);
    }
    return chains_sum(lanes);
}

/** y[n] = x rstd g, all of one type or x and g widened. */
PL_INLINE void scale_row(const pl_dtype in, const pl_dtype out, int64_t n, const void *x,
                         float rstd, const void *g, void *y)
{
#pragma GCC ivdep
    for (int64_t d = 0; d < n; d++)
        pl_put(out, y, d, pl_at(in, x, d) * rstd * pl_at(in, g, d));
}

/** One row. Of bf16 that fits a tile, x is widened once; `wide` then holds g. */
PL_INLINE float forward_row(const pl_dtype dtype, const forward_call *c, const void *x,
                            const float *wide, void *y)
{
    const int64_t D = c->D;
    const bool once = dtype == PL_BF16 && D <= TILE;
    float x_wide[TILE];

    if (once)
        pl_widen(dtype, D, x, x_wide);
    const float squares =
        once ? sum_of_squares(PL_F32, D, x_wide) : sum_of_squares(dtype, D, x);
    const float mean = D > 0 ? squares / (float)D : 0.0f;
    const float rstd = 1.0f / sqrtf(mean + c->eps);

    if (once)
        scale_row(PL_F32, dtype, D, x_wide, rstd, wide, y);
    else
        scale_row(dtype, dtype, D, x, rstd, c->g, y);
    return rstd;
}

PL_INLINE void forward_body(const pl_dtype dtype, const forward_call *c)
{
    const int64_t D = c->D;
    const size_t size = pl_dtype_bytes(dtype);
    const bool streams = c->x != c->y && D <= PL_BYPASS_TILE && pl_bypasses(c->R * D, size);
    float tile[PL_BYPASS_TILE], wide[TILE];

    if (dtype == PL_BF16 && D <= TILE)
        pl_widen(dtype, D, c->g, wide);
    for (int64_t r = 0; r < c->R; r++) {
        void *y_r = pl_to(dtype, c->y, r * D);

        c->rstd[r] =
            forward_row(dtype, c, pl_from(dtype, c->x, r * D), wide, streams ? tile : y_r);
        if (streams)
            pl_bypass(y_r, tile, (size_t)D * size);
    }
    if (streams)
        pl_bypass_end();
}

/** What a part of a row of backward reads and writes, n elements from one column on. */
typedef struct {
    const void *x, *g, *dy, *base;
    float rstd, pull;
    void *dx;
    float *dg; /* += dy * x * rstd */
} part;

/** dx = base + rstd (g dy - x rstd^2 / D sum(g dy x)); dx may be x, dy or base. */
PL_INLINE void backward_part(const pl_dtype dtype, const bool with_base, int64_t n, const part *p)
{
    const void *x = p->x, *g = p->g, *dy = p->dy, *base = p->base;
    const float rstd = p->rstd, pull = p->pull;
    void *dx = p->dx;
    float *dg = p->dg;

#pragma GCC ivdep
    for (int64_t d = 0; d < n; d++) {
        const float x_d = pl_at(dtype, x, d), dy_d = pl_at(dtype, dy, d);
        const float own = dy_d * pl_at(dtype, g, d) * rstd - x_d * pull;

        dg[d] += dy_d * (x_d * rstd);
        pl_put(dtype, dx, d, with_base ? pl_at(dtype, base, d) + own : own);
    }
}

/** Rows r0 to end of columns d0 to d0 + n: dx, and their share of dg. */
PL_INLINE void backward_block(const pl_dtype dtype, const backward_call *c, int64_t r0, int64_t end,
                              int64_t d0, int64_t n, const float *pull, bool streams)
{
    const size_t size = pl_dtype_bytes(dtype);
    float dg[COLUMNS] = {0}, tile[COLUMNS];

    for (int64_t r = r0; r < end; r++) {
        const int64_t at = r * c->D + d0;
        void *dx = pl_to(dtype, c->dx, at);
        const part p = {.x = pl_from(dtype, c->x, at),
                        .g = pl_from(dtype, c->g, d0),
                        .dy = pl_from(dtype, c->dy, at),
                        .base = pl_from(dtype, c->base, at),
                        .rstd = c->rstd[r],
                        .pull = pull[r - r0],
                        .dx = streams ? tile : dx,
                        .dg = dg};

        if (p.base != NULL)
            backward_part(dtype, true, n, &p);
        else
            backward_part(dtype, false, n, &p);
        if (streams)
            pl_bypass(dx, tile, (size_t)n * size);
    }
    for (int64_t d = 0; d < n; d++)
        c->dg[d0 + d] += dg[d];
}

/** ROWS rows at a time: their sums over D first, which brings them into cache, then the rest. */
PL_INLINE void backward_body(const pl_dtype dtype, const backward_call *c)
{
    const int64_t R = c->R, D = c->D;
    const bool streams = c->dx != c->x && c->dx != c->dy && c->dx != c->base &&
                         pl_bypasses(R * D, pl_dtype_bytes(dtype));

    for (int64_t r0 = 0; r0 < R; r0 += ROWS) {
        const int64_t end = R - r0 < ROWS ? R : r0 + ROWS;
        float pull[ROWS];

        for (int64_t r = r0; r < end; r++)
            pull[r - r0] = sum_of_products(dtype, D, pl_from(dtype, c->dy, r * D), c->g,
                                           pl_from(dtype, c->x, r * D)) /
                           (float)D * c->rstd[r] * c->rstd[r] * c->rstd[r];
        for (int64_t d0 = 0; d0 < D; d0 += COLUMNS)
            backward_block(dtype, c, r0, end, d0, D - d0 < COLUMNS ? D - d0 : COLUMNS, pull,
                           streams);
    }
    if (streams)
        pl_bypass_end();
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
