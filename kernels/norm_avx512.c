/* norm_avx512 -- RMSNorm by hand, 64 elements at a time (kernels/avx512.h): with every 64 that are
 * written, as many are asked for ahead (forward asks for none while sums are formed: they come no
 * sooner, and in f32 later: measured). Backward goes on with the next row's sum beside each row's
 * gradient, so that memory and arithmetic are asked of at once. */
#include "config.h"

#include "kernels/norm_calls.h"

#if defined(__x86_64__)

#include "kernels/avx512.h"
#include "kernels/bypass.h"
#include "kernels/isa.h"

/** x[i .. i + n), n being more than 0, at most 64 of them. */
PL_AVX512_INLINE pl_block load(const pl_form form, const void *x, int64_t i, int64_t n)
{
    return n < PL_BLOCK ? pl_block_load_part(form, x, i, n) : pl_block_load(form, x, i);
}

/** Asks for what lies `ahead` bytes behind the block of x[i]. */
PL_AVX512_INLINE void fetch(const pl_form form, const void *x, int64_t i, size_t ahead)
{
    const pl_dtype dtype = pl_form_dtype(form);

    pl_fetch(pl_from(dtype, x, i), ahead, PL_BLOCK * pl_dtype_bytes(dtype));
}

/* How an output is written. */
typedef enum {
    AS_USUAL,
    BY_LINES, /* past the caches from registers, every row being whole lines */
    BY_TILES, /* past the caches by pl_bypass */
} way;

/** How y[R, D] is written, which overlaps no input where it `stands_apart`. */
PL_AVX512_INLINE way way_of(const pl_form form, bool stands_apart, const void *y, int64_t R,
                            int64_t D)
{
    const size_t size = pl_dtype_bytes(pl_form_dtype(form));

    if (!stands_apart || !pl_bypasses(R * D, size))
        return AS_USUAL;
    return (uintptr_t)y % 64 == 0 && (size_t)D * size % 64 == 0 ? BY_LINES : BY_TILES;
}

/** y[i .. i + n) = b, n being more than 0, at most 64 of them. */
PL_AVX512_INLINE void store(const pl_form form, way how, void *y, int64_t i, int64_t n, pl_block b)
{
    if (n < PL_BLOCK)
        pl_block_store_part(form, y, i, n, b);
    else if (how == BY_LINES)
        pl_block_store(form, true, y, i, b);
    else
        pl_block_store(form, false, y, i, b);
}

/* ---- forward */

/** The sum of x^2 over D. */
PL_AVX512_INLINE float sum_squares(const pl_form form, int64_t D, const void *x)
{
    __m512 sum[PL_VECTORS] = {{0}};

    for (int64_t d = 0; d < D; d += PL_BLOCK) {
        const pl_block b = load(form, x, d, D - d);

        PL_EACH (k)
            sum[k] = _mm512_fmadd_ps(b.v[k], b.v[k], sum[k]);
    }
    return pl_block_sum(form, sum);
}

/** y[n] = x rstd g. */
PL_AVX512_INLINE void scale(const pl_form form, way how, int64_t n, const void *x, float rstd,
                            const void *g, void *y)
{
    const __m512 factor = _mm512_set1_ps(rstd);

    for (int64_t d = 0; d < n; d += PL_BLOCK) {
        pl_block b = load(form, x, d, n - d);
        const pl_block g_d = load(form, g, d, n - d);

        fetch(form, x, d, PL_NORM_AHEAD);
        PL_EACH (k)
            b.v[k] = _mm512_mul_ps(_mm512_mul_ps(b.v[k], factor), g_d.v[k]);
        store(form, how, y, d, n - d, b);
    }
}

PL_AVX512_INLINE void forward_row(const pl_form form, way how, const pl_norm_forward_call *c,
                                  int64_t r)
{
    const pl_dtype dtype = pl_form_dtype(form);
    const int64_t size = (int64_t)pl_dtype_bytes(dtype), part = PL_NORM_PART_BYTES / size;
    const void *x = pl_from(dtype, c->x, r * c->D);
    void *y = pl_to(dtype, c->y, r * c->D);
    float tile[PL_NORM_PART_BYTES / sizeof(float)] __attribute__((aligned(64)));

    if (how != BY_TILES)
        scale(form, how, c->D, x, c->rstd[r], c->g, y);
    for (int64_t d = 0; d < c->D && how == BY_TILES; d += part) {
        const int64_t n = c->D - d < part ? c->D - d : part;

        scale(form, how, n, pl_from(dtype, x, d), c->rstd[r], pl_from(dtype, c->g, d), tile);
        pl_bypass(pl_to(dtype, y, d), tile, (size_t)(n * size));
    }
}

PL_AVX512_INLINE void forward_wide(const pl_form form, const pl_norm_forward_call *c)
{
    const pl_dtype dtype = pl_form_dtype(form);
    const int64_t R = c->R, D = c->D, rows = pl_norm_batch(dtype, D);
    const way how = way_of(form, c->x != c->y, c->y, R, D);

    for (int64_t r0 = 0; r0 < R; r0 += rows) {
        const int64_t end = R - r0 < rows ? R : r0 + rows;

        for (int64_t r = r0; r < end; r++) {
            const void *x = pl_from(dtype, c->x, r * D);

            c->rstd[r] = pl_norm_rstd(dtype, D, c->eps, x, sum_squares(form, D, x));
        }
        for (int64_t r = r0; r < end; r++)
            forward_row(form, how, c, r);
    }
    if (how != AS_USUAL)
        pl_bypass_end();
}

PL_AVX512 void pl_norm_forward_avx512(pl_dtype dtype, const pl_norm_forward_call *c)
{
    if (dtype == PL_F32)
        forward_wide(PL_WIDE, c);
    else if (pl_isa_get() == PL_ISA_AVX512BF16)
        forward_wide(PL_NARROW_EXACT, c);
    else
        forward_wide(PL_NARROW, c);
}

/* ---- backward */

/** sum += dy g x over n elements. */
PL_AVX512_INLINE void add_products(const pl_form form, int64_t n, const void *dy, const void *g,
                                   const void *x, __m512 *sum)
{
    for (int64_t d = 0; d < n; d += PL_BLOCK) {
        const pl_block dy_d = load(form, dy, d, n - d), g_d = load(form, g, d, n - d);
        const pl_block x_d = load(form, x, d, n - d);

        PL_EACH (k)
            sum[k] = _mm512_fmadd_ps(_mm512_mul_ps(dy_d.v[k], g_d.v[k]), x_d.v[k], sum[k]);
    }
}

/** What x[D] of row r is multiplied by, rstd^3 / D sum(dy g x), from the vectors of that sum. */
PL_AVX512_INLINE float pull_of(const pl_form form, const pl_norm_backward_call *c, int64_t r,
                               const __m512 *sum)
{
    const float rstd = c->rstd[r];

    return pl_block_sum(form, sum) / (float)c->D * rstd * rstd * rstd;
}

/** The same of a row from its first element to its last. */
PL_AVX512_INLINE float pull_of_row(const pl_form form, const pl_norm_backward_call *c, int64_t r)
{
    const pl_dtype dtype = pl_form_dtype(form);
    __m512 sum[PL_VECTORS] = {{0}};

    add_products(form, c->D, pl_from(dtype, c->dy, r * c->D), c->g, pl_from(dtype, c->x, r * c->D),
                 sum);
    return pull_of(form, c, r, sum);
}

/** A part of a row, n elements from one column on; dg of those columns, in blocks. */
typedef struct {
    int64_t n;
    const void *x, *g, *dy, *base;
    float rstd, pull;
    void *dx;
    float *dg;
    const void *next_x, *next_dy; /* of the row whose sum is formed meanwhile, or NULL */
    __m512 *next_sum;
} part;

/** n elements of a part, from element d on, at most 64: dx = base + rstd (g dy - x rstd^2 / D
 * sum(g dy x)), which may be x, dy or base; dg += dy x rstd. `with_next`, the sum of the next row
 * goes on beside it. */
PL_AVX512_INLINE void pull_block(const pl_form form, const bool with_base, const bool with_next,
                                 way how, const part *p, int64_t d, const int64_t n)
{
    const __m512 rstd = _mm512_set1_ps(p->rstd), pull = _mm512_set1_ps(p->pull);
    const pl_block x = load(form, p->x, d, n), dy = load(form, p->dy, d, n);
    const pl_block g = load(form, p->g, d, n);
    pl_block own, base;

    fetch(form, p->next_x != NULL ? p->next_x : p->x, d, PL_NORM_AHEAD_OF_FOUR);
    fetch(form, p->next_x != NULL ? p->next_dy : p->dy, d, PL_NORM_AHEAD_OF_FOUR);
    if (with_base) {
        base = load(form, p->base, d, n);
        fetch(form, p->base, d, PL_NORM_AHEAD_OF_THREE);
    }
    PL_EACH (k) {
        float *dg = p->dg + d + 16 * k;
        const __m512 scaled = _mm512_mul_ps(dy.v[k], rstd);

        _mm512_store_ps(dg, _mm512_fmadd_ps(scaled, x.v[k], _mm512_load_ps(dg)));
        own.v[k] =
            with_base ? _mm512_fmadd_ps(scaled, g.v[k], base.v[k]) : _mm512_mul_ps(scaled, g.v[k]);
        own.v[k] = _mm512_fnmadd_ps(x.v[k], pull, own.v[k]);
    }
    store(form, how, p->dx, d, n, own);
    if (with_next) {
        const pl_block next_dy = load(form, p->next_dy, d, n);
        const pl_block next_x = load(form, p->next_x, d, n);

        PL_EACH (k)
            p->next_sum[k] =
                _mm512_fmadd_ps(_mm512_mul_ps(next_dy.v[k], g.v[k]), next_x.v[k], p->next_sum[k]);
    }
}

PL_AVX512_INLINE void pull_blocks(const pl_form form, const bool with_base, const bool with_next,
                                  way how, const part *p)
{
    int64_t d = 0;

    for (; d + PL_BLOCK <= p->n; d += PL_BLOCK)
        pull_block(form, with_base, with_next, how, p, d, PL_BLOCK);
    if (d < p->n)
        pull_block(form, with_base, with_next, how, p, d, p->n - d);
}

/** A part, and that of the next row's sum, where there is one: block by block, which loads g once;
 * past the caches one after the other, since memory serves runs of lines better. */
PL_AVX512_INLINE void pull_apart(const pl_form form, const bool with_base, way how, const part *p)
{
    if (p->next_x != NULL && how == AS_USUAL) {
        pull_blocks(form, with_base, true, how, p);
        return;
    }
    pull_blocks(form, with_base, false, how, p);
    if (p->next_x != NULL)
        add_products(form, p->n, p->next_dy, p->g, p->next_x, p->next_sum);
}

/** The rows of backward whose dg is summed apart, and the columns at hand. */
typedef struct {
    const pl_norm_backward_call *c;
    way how;
    int64_t r0, d0, n;
    float pull[PL_NORM_ROWS];
    float dg[PL_NORM_COLUMNS] __attribute__((aligned(64))); /* in blocks */
} block;

/** The columns of a block in row r, whose pull is known; d0 of them are behind, a multiple of 64.
 * Of the next row, when `with_next`, the same columns are added to its sum. */
PL_AVX512_INLINE void backward_row(const pl_form form, block *b, int64_t r, float pull,
                                   bool with_next, __m512 *next_sum)
{
    const pl_norm_backward_call *c = b->c;
    const pl_dtype dtype = pl_form_dtype(form);
    const int64_t size = (int64_t)pl_dtype_bytes(dtype), step = PL_NORM_PART_BYTES / size;
    float tile[PL_NORM_PART_BYTES / sizeof(float)] __attribute__((aligned(64)));

    for (int64_t d = 0, n; d < b->n; d += n) {
        const int64_t at = r * c->D + b->d0 + d;
        void *dx = pl_to(dtype, c->dx, at);

        n = b->how == AS_USUAL || b->n - d < step ? b->n - d : step;
        const part p = {.n = n,
                        .x = pl_from(dtype, c->x, at),
                        .g = pl_from(dtype, c->g, b->d0 + d),
                        .dy = pl_from(dtype, c->dy, at),
                        .base = pl_from(dtype, c->base, at),
                        .rstd = c->rstd[r],
                        .pull = pull,
                        .dx = b->how == BY_TILES ? tile : dx,
                        .dg = b->dg + d,
                        .next_x = with_next ? pl_from(dtype, c->x, at + c->D) : NULL,
                        .next_dy = with_next ? pl_from(dtype, c->dy, at + c->D) : NULL,
                        .next_sum = next_sum};

        if (p.base != NULL)
            pull_apart(form, true, b->how, &p);
        else
            pull_apart(form, false, b->how, &p);
        if (b->how == BY_TILES)
            pl_bypass(dx, tile, (size_t)(n * size));
    }
}

/** A block of some columns, or of long rows: sums over D of a few rows when the columns are the
 * first, which brings them into cache, then the rest of these rows. */
PL_AVX512_INLINE void backward_batches(const pl_form form, block *b, int64_t end)
{
    const int64_t rows = pl_norm_batch(pl_form_dtype(form), b->c->D);

    for (int64_t r0 = b->r0, to; r0 < end; r0 = to) {
        to = end - r0 < rows ? end : r0 + rows;
        for (int64_t r = r0; r < to && b->d0 == 0; r++)
            b->pull[r - b->r0] = pull_of_row(form, b->c, r);
        for (int64_t r = r0; r < to; r++)
            backward_row(form, b, r, b->pull[r - b->r0], false, NULL);
    }
}

_Static_assert(PL_NORM_ROW_IN_TURN <= PL_NORM_COLUMNS * (int)sizeof(pl_bf16),
               "a row done in turn is one block of columns");

/** A block of all columns: each row beside the sum of the next, be that of the next block.
 * `pull` is that of the first row, then of the one after the last. */
PL_AVX512_INLINE void backward_in_turn(const pl_form form, block *b, int64_t end, float *pull)
{
    for (int64_t r = b->r0; r < end; r++) {
        const bool with_next = r + 1 < b->c->R;
        __m512 sum[PL_VECTORS] = {{0}};

        backward_row(form, b, r, *pull, with_next, sum);
        if (with_next)
            *pull = pull_of(form, b->c, r + 1, sum);
    }
}

/** A block's dg to where it belongs. */
PL_AVX512_INLINE void add_dg(const pl_form form, const block *b)
{
    float *dg = b->c->dg + b->d0;

    for (int64_t d = 0; d < b->n; d += PL_BLOCK) {
        pl_block sum = load(PL_WIDE, dg, d, b->n - d), own = pl_block_load(PL_WIDE, b->dg, d);

        if (form != PL_WIDE) {
            pl_interleave(own.v[0], own.v[1], &own.v[0], &own.v[1]);
            pl_interleave(own.v[2], own.v[3], &own.v[2], &own.v[3]);
        }
        PL_EACH (k)
            sum.v[k] = _mm512_add_ps(sum.v[k], own.v[k]);
        store(PL_WIDE, AS_USUAL, dg, d, b->n - d, sum);
    }
}

PL_AVX512_INLINE void backward_wide(const pl_form form, const pl_norm_backward_call *c)
{
    const pl_dtype dtype = pl_form_dtype(form);
    const int64_t R = c->R, D = c->D;
    const bool apart = c->dx != c->x && c->dx != c->dy && c->dx != c->base;
    const bool in_turn = D * (int64_t)pl_dtype_bytes(dtype) <= PL_NORM_ROW_IN_TURN;
    block b = {.c = c, .how = way_of(form, apart, c->dx, R, D)};
    float pull = R > 0 && in_turn ? pull_of_row(form, c, 0) : 0.0f;

    for (b.r0 = 0; b.r0 < R; b.r0 += PL_NORM_ROWS)
        for (b.d0 = 0; b.d0 < D; b.d0 += PL_NORM_COLUMNS) {
            const int64_t end = R - b.r0 < PL_NORM_ROWS ? R : b.r0 + PL_NORM_ROWS;

            b.n = D - b.d0 < PL_NORM_COLUMNS ? D - b.d0 : PL_NORM_COLUMNS;
            memset(b.dg, 0, (size_t)(b.n + PL_BLOCK - 1) / PL_BLOCK * PL_BLOCK * sizeof *b.dg);
            if (in_turn)
                backward_in_turn(form, &b, end, &pull);
            else
                backward_batches(form, &b, end);
            add_dg(form, &b);
        }
    if (b.how != AS_USUAL)
        pl_bypass_end();
}

PL_AVX512 void pl_norm_backward_avx512(pl_dtype dtype, const pl_norm_backward_call *c)
{
    if (dtype == PL_F32)
        backward_wide(PL_WIDE, c);
    else if (pl_isa_get() == PL_ISA_AVX512BF16)
        backward_wide(PL_NARROW_EXACT, c);
    else
        backward_wide(PL_NARROW, c);
}

#else

void pl_norm_forward_avx512(pl_dtype dtype, const pl_norm_forward_call *c)
{
    (void)dtype, (void)c; /* never chosen */
}

void pl_norm_backward_avx512(pl_dtype dtype, const pl_norm_backward_call *c)
{
    (void)dtype, (void)c;
}

#endif
