/* swiglu -- one pass forward, one pass backward. */
#include "config.h"

#include "kernels/swiglu.h"

#include "kernels/isa.h"
#include "kernels/lanes.h"
#include "kernels/bypass.h"

/** sigmoid(x) and 1 - sigmoid(x), neither by cancellation nor through an overflow; what is below
 * e^-87 is 0. */
PL_INLINE void sigmoid(float x, float *sigma, float *rest)
{
    const float e = pl_exp_weight(pl_select(x < 0.0f, x, -x)), large = 1.0f / (1.0f + e),
                small = e * large;

    *sigma = pl_select(x < 0.0f, small, large);
    *rest = pl_select(x < 0.0f, large, small);
}

PL_INLINE void forward_body(const pl_dtype dtype, int64_t n, const void *g, const void *u, void *a)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) {
        const float g_i = pl_at(dtype, g, i);
        float sigma, rest;

        sigmoid(g_i, &sigma, &rest);
        pl_put(dtype, a, i, g_i * sigma * pl_at(dtype, u, i));
    }
}

/** silu'(g) = sigma (1 + g (1 - sigma)). */
PL_INLINE void backward_body(const pl_dtype dtype, int64_t n, const void *g, const void *u,
                             const void *da, void *dg, void *du)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) {
        const float g_i = pl_at(dtype, g, i), u_i = pl_at(dtype, u, i), da_i = pl_at(dtype, da, i);
        float sigma, rest;

        sigmoid(g_i, &sigma, &rest);
        pl_put(dtype, dg, i, da_i * u_i * (sigma * (1.0f + g_i * rest)));
        pl_put(dtype, du, i, da_i * (g_i * sigma));
    }
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
