/* adamw -- one pass over parameter, moments and gradient. */
#include "config.h"

#include "kernels/adamw.h"

#include "kernels/isa.h"
#include "kernels/lanes.h"

#include <math.h>

/** Declared free of side effects: a root that might set errno does not vectorise. */
float sqrtf(float) __attribute__((const));

/** The scalars of one update, each rounded once. */
typedef struct {
    float decay, step, m_rate, v_keep, v_rate, root_bias2, eps, g_scale;
} rounded;

static rounded round_scalars(const pl_adamw_scalars *s)
{
    return (rounded){.decay = (float)(1.0 - s->lr * s->weight_decay),
                     .step = (float)(s->lr / s->bias1),
                     .m_rate = (float)(1.0 - s->beta1),
                     .v_keep = (float)s->beta2,
                     .v_rate = (float)(1.0 - s->beta2),
                     .root_bias2 = (float)sqrt(s->bias2),
                     .eps = (float)s->eps,
                     .g_scale = (float)s->gradient_scale};
}

PL_INLINE void body(int64_t n, rounded s, const float *restrict g, float *restrict p,
                    float *restrict m, float *restrict v)
{
    for (int64_t i = 0; i < n; i++) {
        const float g_i = s.g_scale * g[i];
        const float m_i = m[i] + s.m_rate * (g_i - m[i]);
        const float v_i = s.v_keep * v[i] + s.v_rate * g_i * g_i;

        m[i] = m_i;
        v[i] = v_i;
        p[i] = s.decay * p[i] - s.step * (m_i / (sqrtf(v_i) / s.root_bias2 + s.eps));
    }
}

static void update_generic(int64_t n, rounded s, const float *g, float *p, float *m, float *v)
{
    body(n, s, g, p, m, v);
}

PL_AVX2 static void update_avx2(int64_t n, rounded s, const float *g, float *p, float *m, float *v)
{
    body(n, s, g, p, m, v);
}

PL_AVX512 static void update_avx512(int64_t n, rounded s, const float *g, float *p, float *m,
                                    float *v)
{
    body(n, s, g, p, m, v);
}

void pl_adamw(int64_t n, const pl_adamw_scalars *scalars, const float *g, float *p, float *m,
              float *v)
{
    static void (*const run[PL_N_ISA])(int64_t, rounded, const float *, float *, float *,
                                       float *) = {update_generic, update_avx2, update_avx512};

    run[pl_isa_vectors()](n, round_scalars(scalars), g, p, m, v);
}
