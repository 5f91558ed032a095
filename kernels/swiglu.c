/* swiglu -- one pass forward, one pass backward. */
#include "config.h"

#include "kernels/swiglu.h"

#include "kernels/isa.h"
#include "kernels/lanes.h"

/** sigmoid(x) and 1 - sigmoid(x), neither by cancellation nor through an overflow. */
PL_INLINE void sigmoid(float x, float *sigma, float *rest)
{
    const float e = pl_exp(pl_select(x < 0.0f, x, -x)), large = 1.0f / (1.0f + e),
                small = e * large;

    *sigma = pl_select(x < 0.0f, small, large);
    *rest = pl_select(x < 0.0f, large, small);
}

PL_INLINE void forward_body(int64_t n, const float *g, const float *u, float *a)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) {
        float sigma, rest;

        sigmoid(g[i], &sigma, &rest);
        a[i] = g[i] * sigma * u[i];
    }
}

/** silu'(g) = sigma (1 + g (1 - sigma)). */
PL_INLINE void backward_body(int64_t n, const float *g, const float *u, const float *da, float *dg,
                             float *du)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) {
        const float g_i = g[i], u_i = u[i], da_i = da[i];
        float sigma, rest;

        sigmoid(g_i, &sigma, &rest);
        dg[i] = da_i * u_i * (sigma * (1.0f + g_i * rest));
        du[i] = da_i * (g_i * sigma);
    }
}

static void forward_generic(int64_t n, const float *g, const float *u, float *a)
{
    forward_body(n, g, u, a);
}

PL_AVX2 static void forward_avx2(int64_t n, const float *g, const float *u, float *a)
{
    forward_body(n, g, u, a);
}

PL_AVX512 static void forward_avx512(int64_t n, const float *g, const float *u, float *a)
{
    forward_body(n, g, u, a);
}

void pl_swiglu_forward(int64_t n, const float *g, const float *u, float *a)
{
    static void (*const run[PL_N_ISA])(int64_t, const float *, const float *,
                                       float *) = {forward_generic, forward_avx2, forward_avx512};

    run[pl_isa_vectors()](n, g, u, a);
}

static void backward_generic(int64_t n, const float *g, const float *u, const float *da, float *dg,
                             float *du)
{
    backward_body(n, g, u, da, dg, du);
}

PL_AVX2 static void backward_avx2(int64_t n, const float *g, const float *u, const float *da,
                                  float *dg, float *du)
{
    backward_body(n, g, u, da, dg, du);
}

PL_AVX512 static void backward_avx512(int64_t n, const float *g, const float *u, const float *da,
                                      float *dg, float *du)
{
    backward_body(n, g, u, da, dg, du);
}

void pl_swiglu_backward(int64_t n, const float *g, const float *u, const float *da, float *dg,
                        float *du)
{
    static void (*const run[PL_N_ISA])(int64_t, const float *, const float *, const float *,
                                       float *, float *) = {backward_generic, backward_avx2,
                                                            backward_avx512};

    run[pl_isa_vectors()](n, g, u, da, dg, du);
}
