/* swiglu -- one pass forward, one pass backward. */
#include "config.h"

#include "kernels/swiglu.h"

#include "kernels/avx512.h"
#include "kernels/bypass.h"
#include "kernels/isa.h"
#include "kernels/lanes.h"

/* Elements at a time, in two loops each: the chain of operations from an element to its result is
 * longer than a CPU looks ahead, and one loop would wait for it most of the time. */
enum { TILE = 512 };

/** e[n] = e^-|g[n]|; what is below e^-87 is 0. */
PL_INLINE void exponentials(const pl_dtype dtype, int64_t n, const void *g, float *restrict e)
{
    for (int64_t i = 0; i < n; i++)
        e[i] = pl_exp_weight(pl_minus_abs(pl_at(dtype, g, i)));
}

/** sigmoid(x) and 1 - sigmoid(x) of e = e^-|x|, neither by cancellation nor through an overflow. */
PL_INLINE void sigmoid(float x, float e, float *sigma, float *rest)
{
    const float large = 1.0f / (1.0f + e), small = e * large;

    *sigma = pl_select(x < 0.0f, small, large);
    *rest = pl_select(x < 0.0f, large, small);
}

PL_INLINE void forward_tile(const pl_dtype dtype, int64_t n, const void *g, const void *u, void *a)
{
    float e[TILE];

    exponentials(dtype, n, g, e);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) {
        const float g_i = pl_at(dtype, g, i);
        const float sigma = pl_select(g_i < 0.0f, e[i], 1.0f) / (1.0f + e[i]);

        pl_put(dtype, a, i, g_i * sigma * pl_at(dtype, u, i));
    }
}

PL_INLINE void forward_body(const pl_dtype dtype, int64_t n, const void *g, const void *u, void *a)
{
    for (int64_t i = 0; i < n; i += TILE)
        forward_tile(dtype, n - i < TILE ? n - i : TILE, pl_from(dtype, g, i), pl_from(dtype, u, i),
                     pl_to(dtype, a, i));
}

/** silu'(g) = sigma (1 + g (1 - sigma)). */
PL_INLINE void backward_tile(const pl_dtype dtype, int64_t n, const void *g, const void *u,
                             const void *da, void *dg, void *du)
{
    float e[TILE];

    exponentials(dtype, n, g, e);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) {
        const float g_i = pl_at(dtype, g, i), u_i = pl_at(dtype, u, i), da_i = pl_at(dtype, da, i);
        float sigma, rest;

        sigmoid(g_i, e[i], &sigma, &rest);
        pl_put(dtype, dg, i, da_i * u_i * (sigma * (1.0f + g_i * rest)));
        pl_put(dtype, du, i, da_i * (g_i * sigma));
    }
}

PL_INLINE void backward_body(const pl_dtype dtype, int64_t n, const void *g, const void *u,
                             const void *da, void *dg, void *du)
{
    for (int64_t i = 0; i < n; i += TILE)
        backward_tile(dtype, n - i < TILE ? n - i : TILE, pl_from(dtype, g, i),
                      pl_from(dtype, u, i), pl_from(dtype, da, i), pl_to(dtype, dg, i),
                      pl_to(dtype, du, i));
}

/** forward_body, streamed. */
PL_INLINE void forward_streamed(const pl_dtype dtype, int64_t n, const void *g, const void *u,
                                void *a)
{
    float tile[PL_BYPASS_TILE];

    for (int64_t i = 0; i < n; i += PL_BYPASS_TILE) {
        const int64_t m = n - i < PL_BYPASS_TILE ? n - i : PL_BYPASS_TILE;

        forward_body(dtype, m, pl_from(dtype, g, i), pl_from(dtype, u, i), tile);
        pl_bypass(pl_to(dtype, a, i), tile, (size_t)m * pl_dtype_bytes(dtype));
    }
    pl_bypass_end();
}

PL_INLINE void forward_of(const pl_dtype dtype, int64_t n, const void *g, const void *u, void *a)
{
    if (a != g && a != u && pl_bypasses(n, pl_dtype_bytes(dtype)))
        forward_streamed(dtype, n, g, u, a);
    else
        forward_body(dtype, n, g, u, a);
}

PL_INLINE void forward_either(pl_dtype dtype, int64_t n, const void *g, const void *u, void *a)
{
    if (dtype == PL_BF16)
        forward_of(PL_BF16, n, g, u, a);
    else
        forward_of(PL_F32, n, g, u, a);
}

static void forward_generic(pl_dtype dtype, int64_t n, const void *g, const void *u, void *a)
{
    forward_either(dtype, n, g, u, a);
}

PL_AVX2 static void forward_avx2(pl_dtype dtype, int64_t n, const void *g, const void *u, void *a)
{
    forward_either(dtype, n, g, u, a);
}

PL_INLINE void backward_either(pl_dtype dtype, int64_t n, const void *g, const void *u,
                               const void *da, void *dg, void *du)
{
    if (dtype == PL_BF16)
        backward_body(PL_BF16, n, g, u, da, dg, du);
    else
        backward_body(PL_F32, n, g, u, da, dg, du);
}

static void backward_generic(pl_dtype dtype, int64_t n, const void *g, const void *u,
                             const void *da, void *dg, void *du)
{
    backward_either(dtype, n, g, u, da, dg, du);
}

PL_AVX2 static void backward_avx2(pl_dtype dtype, int64_t n, const void *g, const void *u,
                                  const void *da, void *dg, void *du)
{
    backward_either(dtype, n, g, u, da, dg, du);
}

/* ---- AVX-512: 64 elements at a time, bf16 by its own exponential (kernels/avx512.h) */

#if defined(__x86_64__)

/* Elements at a time, in two loops each as above. */
enum { TURN = 512 };

/* Operands are fetched ahead, a few lines at a time, when outputs bypass the caches: the CPU's own
 * fetching leaves it waiting then. g is read one loop before u and da, so that these, fetched
 * beside it, come early anyway; of f32 no further: more made it slower. */
enum { AHEAD_BYTES = 6144 };

/** Fetch the blocks of g, u and da (or NULL) that are due AHEAD_BYTES after element i. */
PL_AVX512_INLINE void fetch_ahead(const pl_dtype dtype, const void *g, const void *u,
                                  const void *da, int64_t i)
{
    const size_t ahead = dtype == PL_F32 ? 0 : AHEAD_BYTES;
    const size_t bytes = PL_BLOCK * pl_dtype_bytes(dtype);

    if (ahead > 0)
        pl_fetch(pl_from(dtype, g, i), ahead, bytes);
    pl_fetch(pl_from(dtype, u, i), ahead, bytes);
    if (da != NULL)
        pl_fetch(pl_from(dtype, da, i), ahead, bytes);
}

/** e[n], in blocks, = e^-g[n] for -87 <= g <= 87, constant beyond; of bf16 no more than tiny from
 * g = 86.5 on. n is at most TURN. `past`: fetches g, u and da (or NULL) ahead. */
PL_AVX512_INLINE void exps_of(const pl_form form, const bool past, int64_t n, const void *g,
                              const void *u, const void *da, float *e)
{
    const __m512 end = _mm512_set1_ps(87.0f);
    const pl_dtype dtype = pl_form_dtype(form);

    for (int64_t i = 0; i < n; i += PL_BLOCK) {
        pl_block x =
            n - i < PL_BLOCK ? pl_block_load_part(form, g, i, n - i) : pl_block_load(form, g, i);

        if (past)
            fetch_ahead(dtype, g, u, da, i);
        PL_EACH (k) /* the lesser of |x| and |end|, of x's sign; end in place of a NaN */
            x.v[k] = _mm512_range_ps(x.v[k], end, 2);
        pl_exps_of(form, true, x.v, x.v);
        PL_EACH (k)
            _mm512_store_ps(e + i + 16 * k, x.v[k]);
    }
}

/** sigmoid(g), 0 below -87, of e = e^-g. */
PL_AVX512_INLINE __m512 sigmoid_of(__m512 g, __m512 e)
{
    const __m512 sigma = pl_reciprocal(_mm512_add_ps(_mm512_set1_ps(1.0f), e));
    const __mmask16 there = _mm512_cmp_ps_mask(g, _mm512_set1_ps(-87.0f), _CMP_NLT_UQ);

    return _mm512_maskz_mov_ps(there, sigma);
}

/** a of 64 elements. */
PL_AVX512_INLINE pl_block forward_block(pl_block g, pl_block u, const float *e)
{
    PL_EACH (k) {
        const __m512 sigma = sigmoid_of(g.v[k], _mm512_load_ps(e + 16 * k));

        u.v[k] = _mm512_mul_ps(_mm512_mul_ps(g.v[k], sigma), u.v[k]);
    }
    return u;
}

/** a[n], n at most TURN, in two loops: see TILE. */
PL_AVX512_INLINE void forward_turn(const pl_form form, const bool past, int64_t n, const void *g,
                                   const void *u, void *a)
{
    float e[TURN] __attribute__((aligned(64)));
    int64_t i = 0;

    exps_of(form, past, n, g, u, NULL, e);
    for (; i + PL_BLOCK <= n; i += PL_BLOCK)
        pl_block_store(form, past, a, i,
                       forward_block(pl_block_load(form, g, i), pl_block_load(form, u, i), e + i));
    if (i < n)
        pl_block_store_part(form, a, i, n - i,
                            forward_block(pl_block_load_part(form, g, i, n - i),
                                          pl_block_load_part(form, u, i, n - i), e + i));
}

PL_AVX512_INLINE void forward_wide(const pl_form form, int64_t n, const void *g, const void *u,
                                   void *a)
{
    const pl_dtype dtype = pl_form_dtype(form);
    int64_t i = 0;

    if (a != g && a != u && pl_bypasses(n, pl_dtype_bytes(dtype))) {
        i = pl_to_line(form, a, n);
        forward_turn(form, false, i, g, u, a);
        for (; i + TURN <= n; i += TURN)
            forward_turn(form, true, TURN, pl_from(dtype, g, i), pl_from(dtype, u, i),
                         pl_to(dtype, a, i));
        pl_bypass_end();
    }
    for (; i < n; i += TURN)
        forward_turn(form, false, n - i < TURN ? n - i : TURN, pl_from(dtype, g, i),
                     pl_from(dtype, u, i), pl_to(dtype, a, i));
}

PL_AVX512 static void forward_avx512(pl_dtype dtype, int64_t n, const void *g, const void *u,
                                     void *a)
{
    if (dtype == PL_F32)
        forward_wide(PL_WIDE, n, g, u, a);
    else if (pl_isa_get() == PL_ISA_AVX512BF16)
        forward_wide(PL_NARROW_BY_CPU, n, g, u, a);
    else
        forward_wide(PL_NARROW, n, g, u, a);
}

/** dg, du of 64 elements, in place of g and u. */
PL_AVX512_INLINE void backward_block(pl_block *g, pl_block *u, pl_block da, const float *e)
{
    PL_EACH (k) {
        const __m512 g_k = g->v[k], da_k = da.v[k], e_k = _mm512_load_ps(e + 16 * k);
        const __m512 one = _mm512_set1_ps(1.0f), inverse = pl_reciprocal(_mm512_add_ps(one, e_k));
        const __m512 rest = _mm512_mul_ps(e_k, inverse); /* 1 - sigmoid */
        const __m512 sigma = sigmoid_of(g_k, e_k);
        const __m512 slope = _mm512_mul_ps(sigma, _mm512_fmadd_ps(g_k, rest, one));

        g->v[k] = _mm512_mul_ps(_mm512_mul_ps(da_k, u->v[k]), slope);
        u->v[k] = _mm512_mul_ps(da_k, _mm512_mul_ps(g_k, sigma));
    }
}

/** dg[n] and du[n], n at most TURN. */
PL_AVX512_INLINE void backward_turn(const pl_form form, const bool past, int64_t n, const void *g,
                                    const void *u, const void *da, void *dg, void *du)
{
    float e[TURN] __attribute__((aligned(64)));

    exps_of(form, past, n, g, u, da, e);
    for (int64_t i = 0; i < n; i += PL_BLOCK) {
        const int64_t m = n - i;
        const bool whole = m >= PL_BLOCK;
        pl_block g_i = whole ? pl_block_load(form, g, i) : pl_block_load_part(form, g, i, m);
        pl_block u_i = whole ? pl_block_load(form, u, i) : pl_block_load_part(form, u, i, m);

        backward_block(&g_i, &u_i,
                       whole ? pl_block_load(form, da, i) : pl_block_load_part(form, da, i, m),
                       e + i);
        if (whole) {
            pl_block_store(form, past, dg, i, g_i);
            pl_block_store(form, past, du, i, u_i);
        } else {
            pl_block_store_part(form, dg, i, m, g_i);
            pl_block_store_part(form, du, i, m, u_i);
        }
    }
}

/** Past the caches only when both outputs begin lines at the same element and overwrite nothing. */
PL_AVX512_INLINE void backward_wide(const pl_form form, int64_t n, const void *g, const void *u,
                                    const void *da, void *dg, void *du)
{
    const pl_dtype dtype = pl_form_dtype(form);
    const bool apart = dg != g && dg != u && dg != da && du != g && du != u && du != da &&
                       ((uintptr_t)dg - (uintptr_t)du) % 64 == 0;
    int64_t i = 0;

    if (apart && pl_bypasses(n, pl_dtype_bytes(dtype))) {
        i = pl_to_line(form, dg, n);
        backward_turn(form, false, i, g, u, da, dg, du);
        for (; i + TURN <= n; i += TURN)
            backward_turn(form, true, TURN, pl_from(dtype, g, i), pl_from(dtype, u, i),
                          pl_from(dtype, da, i), pl_to(dtype, dg, i), pl_to(dtype, du, i));
        pl_bypass_end();
    }
    for (; i < n; i += TURN)
        backward_turn(form, false, n - i < TURN ? n - i : TURN, pl_from(dtype, g, i),
                      pl_from(dtype, u, i), pl_from(dtype, da, i), pl_to(dtype, dg, i),
                      pl_to(dtype, du, i));
}

PL_AVX512 static void backward_avx512(pl_dtype dtype, int64_t n, const void *g, const void *u,
                                      const void *da, void *dg, void *du)
{
    if (dtype == PL_F32)
        backward_wide(PL_WIDE, n, g, u, da, dg, du);
    else if (pl_isa_get() == PL_ISA_AVX512BF16)
        backward_wide(PL_NARROW_BY_CPU, n, g, u, da, dg, du);
    else
        backward_wide(PL_NARROW, n, g, u, da, dg, du);
}
#else
#define forward_avx512 forward_generic /* never chosen */
#define backward_avx512 backward_generic
#endif

static void (*const forward[PL_N_ISA])(pl_dtype, int64_t, const void *, const void *,
                                       void *) = {forward_generic, forward_avx2, forward_avx512};

void pl_swiglu_forward(int64_t n, const float *g, const float *u, float *a)
{
    forward[pl_isa_vectors()](PL_F32, n, g, u, a);
}

void pl_swiglu_forward_bf16(int64_t n, const pl_bf16 *g, const pl_bf16 *u, pl_bf16 *a)
{
    forward[pl_isa_vectors()](PL_BF16, n, g, u, a);
}

static void (*const backward[PL_N_ISA])(pl_dtype, int64_t, const void *, const void *, const void *,
                                        void *, void *) = {backward_generic, backward_avx2,
                                                           backward_avx512};

void pl_swiglu_backward(int64_t n, const float *g, const float *u, const float *da, float *dg,
                        float *du)
{
    backward[pl_isa_vectors()](PL_F32, n, g, u, da, dg, du);
}

void pl_swiglu_backward_bf16(int64_t n, const pl_bf16 *g, const pl_bf16 *u, const pl_bf16 *da,
                             pl_bf16 *dg, pl_bf16 *du)
{
    backward[pl_isa_vectors()](PL_BF16, n, g, u, da, dg, du);
}
