/* norm -- RMSNorm, a row at a time; the gradient of g a block of rows at a time. */
#include "config.h"

#include "kernels/norm.h"

#include "kernels/bypass.h"
#include "kernels/isa.h"
#include "kernels/norm_calls.h"

#include <string.h>

enum {
    CHAINS = 4 * PL_LANES, /* partial sums: an addition takes longer than a load */
    WIDE = 1024,           /* elements of bf16 widened at a time; a multiple of CHAINS */
    HIGH =
        PL_NORM_COLUMNS / 2 + 5 * PL_LANES /* where dg of high halves begins: a page from the
                                              low ones, loads would seem to need earlier stores */
};

/* ---- sums over a row */

/* The sum over D of a * b * c or, where c is NULL, of a * b: CHAINS interleaved sums, added
 * pairwise. */
typedef float sum_function(pl_dtype dtype, int64_t D, const void *a, const void *b, const void *c);

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

/** bf16 is widened a tile at a time. */
PL_INLINE float sum_body(const pl_dtype dtype, const bool three, int64_t D, const void *a,
                         const void *b, const void *c)
{
    float lanes[CHAINS] = {0}, wide[3][WIDE];

    if (dtype == PL_F32)
        add_products(three, D, a, b, c, lanes);
    for (int64_t d = 0; d < D && dtype == PL_BF16; d += WIDE) {
        const int64_t n = D - d < WIDE ? D - d : WIDE;

        pl_widen(dtype, n, pl_from(dtype, a, d), wide[0]);
        pl_widen(dtype, n, pl_from(dtype, b, d), wide[1]);
        if (three)
            pl_widen(dtype, n, pl_from(dtype, c, d), wide[2]);
        add_products(three, n, wide[0], wide[1], wide[2], lanes);
    }
    pl_lanes_fold(CHAINS / 2, lanes);
    pl_lanes_fold(CHAINS / 4, lanes);
    return pl_lanes_sum(lanes);
}

PL_INLINE float sum_either(pl_dtype dtype, int64_t D, const void *a, const void *b, const void *c)
{
    if (dtype == PL_BF16)
        return c != NULL ? sum_body(PL_BF16, true, D, a, b, c)
                         : sum_body(PL_BF16, false, D, a, b, c);
    return c != NULL ? sum_body(PL_F32, true, D, a, b, c) : sum_body(PL_F32, false, D, a, b, c);
}

static float sum_generic(pl_dtype dtype, int64_t D, const void *a, const void *b, const void *c)
{
    return sum_either(dtype, D, a, b, c);
}

PL_AVX2 static float sum_avx2(pl_dtype dtype, int64_t D, const void *a, const void *b,
                              const void *c)
{
    return sum_either(dtype, D, a, b, c);
}

/* ---- forward */

/** y[n] = x rstd g. */
PL_INLINE void scale_row(const pl_dtype dtype, int64_t n, const void *x, float rstd, const void *g,
                         void *y)
{
    const int64_t n_words = dtype == PL_BF16 ? n / 2 : 0;

#pragma GCC ivdep
    for (int64_t i = 0; i < n_words; i++) {
        const uint32_t u = pl_word(x, i), v = pl_word(g, i);

        pl_put_word(y, i, pl_word_low(u) * rstd * pl_word_low(v),
                    pl_word_high(u) * rstd * pl_word_high(v));
    }
#pragma GCC ivdep
    for (int64_t d = 0; d < n && dtype == PL_F32; d++)
        pl_put(dtype, y, d, pl_at(dtype, x, d) * rstd * pl_at(dtype, g, d));
    if (n > 2 * n_words && dtype == PL_BF16)
        pl_put(dtype, y, n - 1, pl_at(dtype, x, n - 1) * rstd * pl_at(dtype, g, n - 1));
}

/** Row r, a part at a time. */
PL_INLINE void forward_row(const pl_dtype dtype, const pl_norm_forward_call *c, int64_t r,
                           bool streams)
{
    const size_t size = pl_dtype_bytes(dtype);
    const int64_t columns = PL_NORM_PART_BYTES / (int64_t)size;
    float tile[PL_NORM_PART_BYTES / sizeof(float)];

    for (int64_t d = 0; d < c->D; d += columns) {
        const int64_t n = c->D - d < columns ? c->D - d : columns;
        const void *x = pl_from(dtype, c->x, r * c->D + d);
        void *y = pl_to(dtype, c->y, r * c->D + d);

        pl_fetch(x, PL_NORM_AHEAD, (size_t)n * size);
        scale_row(dtype, n, x, c->rstd[r], pl_from(dtype, c->g, d), streams ? tile : y);
        if (streams)
            pl_bypass(y, tile, (size_t)n * size);
    }
}

/** The sums of a few rows first, which bring them into L1. */
PL_INLINE void forward_body(const pl_dtype dtype, sum_function *sum, const pl_norm_forward_call *c)
{
    const int64_t R = c->R, D = c->D, rows = pl_norm_batch(dtype, D);
    const bool streams = c->x != c->y && pl_bypasses(R * D, pl_dtype_bytes(dtype));

    for (int64_t r0 = 0; r0 < R; r0 += rows) {
        const int64_t end = R - r0 < rows ? R : r0 + rows;

        for (int64_t r = r0; r < end; r++) {
            const void *x = pl_from(dtype, c->x, r * D);

            c->rstd[r] = pl_norm_rstd(dtype, D, c->eps, x, sum(dtype, D, x, x, NULL));
        }
        for (int64_t r = r0; r < end; r++)
            forward_row(dtype, c, r, streams);
    }
    if (streams)
        pl_bypass_end();
}

/** What a part of a row of backward reads and writes, n elements from one column on. */
typedef struct {
    const void *x, *g, *dy, *base;
    float rstd, pull;
    void *dx;
} part;

/** base + rstd (g dy - x rstd^2 / D sum(g dy x)), of one element. */
PL_INLINE float pulled(const bool with_base, const part *p, float x, float g, float dy, float base)
{
    const float own = dy * g * p->rstd - x * p->pull;

    return with_base ? base + own : own;
}

/** Element d of dx; dg += its part. */
PL_INLINE void backward_element(const pl_dtype dtype, const bool with_base, const part *p,
                                int64_t d, float *dg)
{
    const float x = pl_at(dtype, p->x, d), dy = pl_at(dtype, p->dy, d);
    const float base = with_base ? pl_at(dtype, p->base, d) : 0.0f;

    *dg += dy * (x * p->rstd);
    pl_put(dtype, p->dx, d, pulled(with_base, p, x, pl_at(dtype, p->g, d), dy, base));
}

/** dx[n], which may be x, dy or base; dg[n] += dy x rstd. Of words dg has the low halves first,
 * then the high ones. */
PL_INLINE void backward_part(const pl_dtype dtype, const bool with_base, int64_t n, const part *p,
                             float *restrict dg)
{
    const int64_t n_words = dtype == PL_BF16 ? n / 2 : 0;
    const void *x = p->x, *g = p->g, *dy = p->dy, *base = p->base;
    const float rstd = p->rstd;
    void *dx = p->dx;
    float *restrict dg_high = dg + HIGH;

#pragma GCC ivdep
    for (int64_t i = 0; i < n_words; i++) {
        const uint32_t x_i = pl_word(x, i), g_i = pl_word(g, i), dy_i = pl_word(dy, i);
        const uint32_t base_i = with_base ? pl_word(base, i) : 0;
        const float low = pl_word_low(x_i), high = pl_word_high(x_i);
        const float dy_low = pl_word_low(dy_i), dy_high = pl_word_high(dy_i);

        dg[i] += dy_low * (low * rstd);
        dg_high[i] += dy_high * (high * rstd);
        pl_put_word(dx, i, pulled(with_base, p, low, pl_word_low(g_i), dy_low, pl_word_low(base_i)),
                    pulled(with_base, p, high, pl_word_high(g_i), dy_high, pl_word_high(base_i)));
    }
#pragma GCC ivdep
    for (int64_t d = 0; d < n && dtype == PL_F32; d++)
        backward_element(dtype, with_base, p, d, dg + d);
    if (n > 2 * n_words && dtype == PL_BF16)
        backward_element(dtype, with_base, p, n - 1, dg + n_words);
}

/** The rows of backward whose dg is summed apart, and the columns at hand. */
typedef struct {
    const pl_norm_backward_call *c;
    int64_t r0, d0, n;
    float pull[PL_NORM_ROWS];
    float dg[PL_NORM_COLUMNS + HIGH - PL_NORM_COLUMNS / 2];
} block;

/** The columns of a block in row r, a part at a time. */
PL_INLINE void backward_row(const pl_dtype dtype, block *b, int64_t r, bool streams)
{
    const pl_norm_backward_call *c = b->c;
    const size_t size = pl_dtype_bytes(dtype);
    const int64_t columns = PL_NORM_PART_BYTES / (int64_t)size;
    float tile[PL_NORM_PART_BYTES / sizeof(float)];

    for (int64_t d = 0; d < b->n; d += columns) {
        const int64_t n = b->n - d < columns ? b->n - d : columns, at = r * c->D + b->d0 + d;
        void *dx = pl_to(dtype, c->dx, at);
        const part p = {.x = pl_from(dtype, c->x, at),
                        .g = pl_from(dtype, c->g, b->d0 + d),
                        .dy = pl_from(dtype, c->dy, at),
                        .base = pl_from(dtype, c->base, at),
                        .rstd = c->rstd[r],
                        .pull = b->pull[r - b->r0],
                        .dx = streams ? tile : dx};
        float *dg = b->dg + (dtype == PL_BF16 ? d / 2 : d);

        pl_fetch(p.x, PL_NORM_AHEAD_OF_THREE, (size_t)n * size);
        pl_fetch(p.dy, PL_NORM_AHEAD_OF_THREE, (size_t)n * size);
        if (p.base != NULL) {
            pl_fetch(p.base, PL_NORM_AHEAD_OF_THREE, (size_t)n * size);
            backward_part(dtype, true, n, &p, dg);
        } else {
            backward_part(dtype, false, n, &p, dg);
        }
        if (streams)
            pl_bypass(dx, tile, (size_t)n * size);
    }
}

/** Rows r0 to end of a block: their sums over D when the columns are its first, which brings them
 * into cache, then the rest. */
PL_INLINE void backward_rows(const pl_dtype dtype, sum_function *sum, block *b, int64_t r0,
                             int64_t end, bool streams)
{
    const pl_norm_backward_call *c = b->c;

    for (int64_t r = r0; r < end && b->d0 == 0; r++)
        b->pull[r - b->r0] = sum(dtype, c->D, pl_from(dtype, c->dy, r * c->D), c->g,
                                 pl_from(dtype, c->x, r * c->D)) /
                             (float)c->D * c->rstd[r] * c->rstd[r] * c->rstd[r];
    for (int64_t r = r0; r < end; r++)
        backward_row(dtype, b, r, streams);
}

/** A block's dg to where it belongs. */
PL_INLINE void add_dg(const pl_dtype dtype, const block *b)
{
    const int64_t n_words = dtype == PL_BF16 ? b->n / 2 : 0;
    float *dg = b->c->dg + b->d0;

    for (int64_t i = 0; i < n_words; i++) {
        dg[2 * i] += b->dg[i];
        dg[2 * i + 1] += b->dg[HIGH + i];
    }
    for (int64_t d = 2 * n_words; d < b->n; d++)
        dg[d] += b->dg[d - n_words];
}

/** PL_NORM_ROWS rows at a time, of these as many as make a tile. */
PL_INLINE void backward_body(const pl_dtype dtype, sum_function *sum,
                             const pl_norm_backward_call *c)
{
    const int64_t R = c->R, D = c->D, rows = pl_norm_batch(dtype, D);
    const bool streams = c->dx != c->x && c->dx != c->dy && c->dx != c->base &&
                         pl_bypasses(R * D, pl_dtype_bytes(dtype));
    block b = {.c = c};

    for (b.r0 = 0; b.r0 < R; b.r0 += PL_NORM_ROWS)
        for (b.d0 = 0; b.d0 < D; b.d0 += PL_NORM_COLUMNS) {
            const int64_t end = R - b.r0 < PL_NORM_ROWS ? R : b.r0 + PL_NORM_ROWS;

            b.n = D - b.d0 < PL_NORM_COLUMNS ? D - b.d0 : PL_NORM_COLUMNS;
            memset(b.dg, 0, sizeof b.dg);
            for (int64_t r = b.r0; r < end; r += rows)
                backward_rows(dtype, sum, &b, r, end - r < rows ? end : r + rows, streams);
            add_dg(dtype, &b);
        }
    if (streams)
        pl_bypass_end();
}

PL_INLINE void forward_either(pl_dtype dtype, sum_function *sum, const pl_norm_forward_call *c)
{
    if (dtype == PL_BF16)
        forward_body(PL_BF16, sum, c);
    else
        forward_body(PL_F32, sum, c);
}

static void forward_generic(pl_dtype dtype, const pl_norm_forward_call *c)
{
    forward_either(dtype, sum_generic, c);
}

PL_AVX2 static void forward_avx2(pl_dtype dtype, const pl_norm_forward_call *c)
{
    forward_either(dtype, sum_avx2, c);
}

static void forward(pl_dtype dtype, const pl_norm_forward_call *c)
{
    static void (*const run[PL_N_ISA])(pl_dtype, const pl_norm_forward_call *) = {
        forward_generic, forward_avx2, pl_norm_forward_avx512};

    run[pl_isa_vectors()](dtype, c);
}

void pl_rmsnorm_forward(int64_t R, int64_t D, float eps, const float *x, const float *g, float *y,
                        float *rstd)
{
    forward(PL_F32, &(pl_norm_forward_call){R, D, eps, x, g, y, rstd});
}

void pl_rmsnorm_forward_bf16(int64_t R, int64_t D, float eps, const pl_bf16 *x, const pl_bf16 *g,
                             pl_bf16 *y, float *rstd)
{
    forward(PL_BF16, &(pl_norm_forward_call){R, D, eps, x, g, y, rstd});
}

PL_INLINE void backward_either(pl_dtype dtype, sum_function *sum, const pl_norm_backward_call *c)
{
    if (dtype == PL_BF16)
        backward_body(PL_BF16, sum, c);
    else
        backward_body(PL_F32, sum, c);
}

static void backward_generic(pl_dtype dtype, const pl_norm_backward_call *c)
{
    backward_either(dtype, sum_generic, c);
}

PL_AVX2 static void backward_avx2(pl_dtype dtype, const pl_norm_backward_call *c)
{
    backward_either(dtype, sum_avx2, c);
}

static void backward(pl_dtype dtype, bool accumulate_dg, const pl_norm_backward_call *c)
{
    static void (*const run[PL_N_ISA])(pl_dtype, const pl_norm_backward_call *) = {
        backward_generic, backward_avx2, pl_norm_backward_avx512};

    for (int64_t d = 0; d < c->D && !accumulate_dg; d++)
        c->dg[d] = 0.0f;
    run[pl_isa_vectors()](dtype, c);
}

void pl_rmsnorm_backward(int64_t R, int64_t D, const float *x, const float *g, const float *rstd,
                         const float *dy, const float *base, float *dx, bool accumulate_dg,
                         float *dg)
{
    backward(PL_F32, accumulate_dg, &(pl_norm_backward_call){R, D, x, g, rstd, dy, base, dx, dg});
}

void pl_rmsnorm_backward_bf16(int64_t R, int64_t D, const pl_bf16 *x, const pl_bf16 *g,
                              const float *rstd, const pl_bf16 *dy, const pl_bf16 *base,
                              pl_bf16 *dx, bool accumulate_dg, float *dg)
{
    backward(PL_BF16, accumulate_dg, &(pl_norm_backward_call){R, D, x, g, rstd, dy, base, dx, dg});
}
