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
} constants;

static constants round_scalars(const pl_adamw_scalars *s)
{
    return (constants){.decay = (float)(1.0 - s->lr * s->weight_decay),
                       .step = (float)(s->lr / s->bias1),
                       .m_rate = (float)(1.0 - s->beta1),
                       .v_keep = (float)s->beta2,
                       .v_rate = (float)(1.0 - s->beta2),
                       .root_bias2 = (float)sqrt(s->bias2),
                       .eps = (float)s->eps,
                       .g_scale = (float)s->gradient_scale};
}

/** `to` may be NULL. */
PL_INLINE void body(int64_t n, constants s, const float *restrict g, float *restrict p,
                    float *restrict m, float *restrict v, pl_bf16 *restrict to)
{
    for (int64_t i = 0; i < n; i++) {
        const float g_i = s.g_scale * g[i];
        const float m_i = m[i] + s.m_rate * (g_i - m[i]);
        const float v_i = s.v_keep * v[i] + s.v_rate * g_i * g_i;
        const float p_i = s.decay * p[i] - s.step * (m_i / (sqrtf(v_i) / s.root_bias2 + s.eps));

        m[i] = m_i;
        v[i] = v_i;
        p[i] = p_i;
        if (to != NULL)
            to[i] = pl_bf16_of_f32(p_i);
    }
}

PL_INLINE void either(int64_t n, constants s, const float *g, float *p, float *m, float *v,
                      pl_bf16 *to)
{
    if (to == NULL)
        body(n, s, g, p, m, v, NULL);
    else
        body(n, s, g, p, m, v, to);
}

static void update_generic(int64_t n, constants s, const float *g, float *p, float *m, float *v,
                           pl_bf16 *to)
{
    either(n, s, g, p, m, v, to);
}

PL_AVX2 static void update_avx2(int64_t n, constants s, const float *g, float *p, float *m,
                                float *v, pl_bf16 *to)
{
    either(n, s, g, p, m, v, to);
}

PL_AVX512 static void update_avx512(int64_t n, constants s, const float *g, float *p, float *m,
                                    float *v, pl_bf16 *to)
{
    either(n, s, g, p, m, v, to);
}

static void (*const update[PL_N_ISA])(int64_t, constants, const float *, float *, float *, float *,
                                      pl_bf16 *) = {update_generic, update_avx2, update_avx512};

void pl_adamw(int64_t n, const pl_adamw_scalars *scalars, const float *g, float *p, float *m,
              float *v)
{
    update[pl_isa_vectors()](n, round_scalars(scalars), g, p, m, v, NULL);
}

void pl_adamw_bf16(int64_t n, const pl_adamw_scalars *scalars, const float *g, float *p, float *m,
                   float *v, pl_bf16 *rounded)
{
    update[pl_isa_vectors()](n, round_scalars(scalars), g, p, m, v, rounded);
}
