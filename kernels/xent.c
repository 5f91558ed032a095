/* xent -- cross-entropy in partials that shards can combine. */
#include "config.h"

#include "kernels/xent.h"

#include "kernels/isa.h"
#include "kernels/lanes.h"

#include <math.h>

void pl_xent_max(int64_t R, int64_t V, const float *logits, float *m)
{
    for (int64_t r = 0; r < R; r++) {
        const float *l_r = logits + r * V;
        float lanes[PL_LANES], most = -INFINITY;
        int64_t v = 0;

        for (int l = 0; l < PL_LANES; l++)
            lanes[l] = -INFINITY;
        for (; v + PL_LANES <= V; v += PL_LANES)
            for (int l = 0; l < PL_LANES; l++)
                lanes[l] = l_r[v + l] > lanes[l] ? l_r[v + l] : lanes[l];
        for (; v < V; v++)
            most = l_r[v] > most ? l_r[v] : most;
        for (int l = 0; l < PL_LANES; l++)
            most = lanes[l] > most ? lanes[l] : most;
        m[r] = most;
    }
}

/** Sum of exp(l[V] - m). */
PL_INLINE float sum_of_exponentials(int64_t V, const float *restrict l, float m)
{
    float lanes[PL_LANES] = {0};
    int64_t v = 0;

    for (; v + PL_LANES <= V; v += PL_LANES)
        for (int i = 0; i < PL_LANES; i++)
            lanes[i] += pl_exp(l[v + i] - m);
    for (int i = 0; v < V; v++, i++)
        lanes[i] += pl_exp(l[v] - m);
    return pl_lanes_sum(lanes);
}

PL_INLINE void sum_body(int64_t R, int64_t V, const float *logits, const float *m, float *s)
{
    for (int64_t r = 0; r < R; r++)
        s[r] = sum_of_exponentials(V, logits + r * V, m[r]);
}

static void sum_generic(int64_t R, int64_t V, const float *logits, const float *m, float *s)
{
    sum_body(R, V, logits, m, s);
}

PL_AVX2 static void sum_avx2(int64_t R, int64_t V, const float *logits, const float *m, float *s)
{
    sum_body(R, V, logits, m, s);
}

PL_AVX512 static void sum_avx512(int64_t R, int64_t V, const float *logits, const float *m,
                                 float *s)
{
    sum_body(R, V, logits, m, s);
}

void pl_xent_sum(int64_t R, int64_t V, int64_t v_begin, const float *logits, const int32_t *targets,
                 const float *m, float *s, float *picked)
{
    static void (*const run[PL_N_ISA])(int64_t, int64_t, const float *, const float *,
                                       float *) = {sum_generic, sum_avx2, sum_avx512};

    run[pl_isa_vectors()](R, V, logits, m, s);
    for (int64_t r = 0; r < R; r++) {
        const int64_t v = targets[r] - v_begin;

        picked[r] = v >= 0 && v < V ? logits[r * V + v] : 0.0f;
    }
}

void pl_xent_loss(int64_t R, const float *m, const float *s, const float *picked, double scale,
                  bool accumulate, float *loss)
{
    double sum = 0.0;

    for (int64_t r = 0; r < R; r++)
        sum += log((double)s[r]) + ((double)m[r] - (double)picked[r]);
    sum *= scale;
    *loss = (float)(accumulate ? (double)*loss + sum : sum);
}

/** dl[V] = factor * exp(l[V] - m); dl may equal l. */
PL_INLINE void scaled_exponentials(int64_t V, const float *l, float m, float factor, float *dl)
{
#pragma GCC ivdep
    for (int64_t v = 0; v < V; v++)
        dl[v] = factor * pl_exp(l[v] - m);
}

PL_INLINE void grad_body(int64_t R, int64_t V, const float *logits, const float *m, const float *s,
                         double scale, float *dlogits)
{
    for (int64_t r = 0; r < R; r++)
        scaled_exponentials(V, logits + r * V, m[r], (float)(scale / (double)s[r]),
                            dlogits + r * V);
}

static void grad_generic(int64_t R, int64_t V, const float *logits, const float *m, const float *s,
                         double scale, float *dlogits)
{
    grad_body(R, V, logits, m, s, scale, dlogits);
}

PL_AVX2 static void grad_avx2(int64_t R, int64_t V, const float *logits, const float *m,
                              const float *s, double scale, float *dlogits)
{
    grad_body(R, V, logits, m, s, scale, dlogits);
}

PL_AVX512 static void grad_avx512(int64_t R, int64_t V, const float *logits, const float *m,
                                  const float *s, double scale, float *dlogits)
{
    grad_body(R, V, logits, m, s, scale, dlogits);
}

void pl_xent_grad(int64_t R, int64_t V, int64_t v_begin, const float *logits,
                  const int32_t *targets, const float *m, const float *s, double scale,
                  float *dlogits)
{
    static void (*const run[PL_N_ISA])(int64_t, int64_t, const float *, const float *,
                                       const float *, double,
                                       float *) = {grad_generic, grad_avx2, grad_avx512};

    run[pl_isa_vectors()](R, V, logits, m, s, scale, dlogits);
    for (int64_t r = 0; r < R; r++) {
        const int64_t v = targets[r] - v_begin;

        if (v >= 0 && v < V)
            dlogits[r * V + v] -= (float)scale;
    }
}
