/* swiglu -- one pass forward, one pass backward. */
#include "config.h"

#include "kernels/swiglu.h"

#include "kernels/isa.h"
#include "kernels/lanes.h"
#include "kernels/bypass.h"

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

PL_AVX512 static void forward_avx512(pl_dtype dtype, int64_t n, const void *g, const void *u,
                                     void *a)
{
    forward_either(dtype, n, g, u, a);
}

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

PL_AVX512 static void backward_avx512(pl_dtype dtype, int64_t n, const void *g, const void *u,
                                      const void *da, void *dg, void *du)
{
    backward_either(dtype, n, g, u, da, dg, du);
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
