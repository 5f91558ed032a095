/* xent -- cross-entropy in partials that shards can combine. */
#include "config.h"

#include "kernels/xent.h"

#include "kernels/isa.h"
#include "kernels/lanes.h"

#include <math.h>

/** What a kernel is called with: logits and dlogits are of the call's dtype; unused fields are 0.
 */
typedef struct {
    int64_t R, V, v_begin;
    const void *logits;
    const int32_t *targets;
    const float *m_in, *s_in;
    float *m, *s, *picked;
    double scale;
    void *dlogits;
} call;

PL_INLINE void max_body(const pl_dtype dtype, const call *c)
{
    const int64_t V = c->V;

    for (int64_t r = 0; r < c->R; r++) {
        const void *l_r = pl_from(dtype, c->logits, r * V);
        float lanes[PL_LANES], most = -INFINITY;
        int64_t v = 0;

        for (int l = 0; l < PL_LANES; l++)
            lanes[l] = -INFINITY;
        for (; v + PL_LANES <= V; v += PL_LANES)
            for (int l = 0; l < PL_LANES; l++) {
                const float x = pl_at(dtype, l_r, v + l);

                lanes[l] = pl_select(x > lanes[l], x, lanes[l]);
            }
        for (; v < V; v++)
            most = pl_at(dtype, l_r, v) > most ? pl_at(dtype, l_r, v) : most;
        for (int l = 0; l < PL_LANES; l++)
            most = lanes[l] > most ? lanes[l] : most;
        c->m[r] = most;
    }
}

/** Sum of exp(l[V] - m). */
PL_INLINE float sum_of_exponentials(const pl_dtype dtype, int64_t V, const void *restrict l,
                                    float m)
{
    float lanes[PL_LANES] = {0};
    int64_t v = 0;

    for (; v + PL_LANES <= V; v += PL_LANES)
        for (int i = 0; i < PL_LANES; i++)
            lanes[i] += pl_exp(pl_at(dtype, l, v + i) - m);
    for (int i = 0; v < V; v++, i++)
        lanes[i] += pl_exp(pl_at(dtype, l, v) - m);
    return pl_lanes_sum(lanes);
}

PL_INLINE void sum_body(const pl_dtype dtype, const call *c)
{
    for (int64_t r = 0; r < c->R; r++) {
        const int64_t v = c->targets[r] - c->v_begin;
        const void *l_r = pl_from(dtype, c->logits, r * c->V);

        c->s[r] = sum_of_exponentials(dtype, c->V, l_r, c->m_in[r]);
        c->picked[r] = v >= 0 && v < c->V ? pl_at(dtype, l_r, v) : 0.0f;
    }
}

/** dl[V] = factor * exp(l[V] - m); dl may equal l. */
PL_INLINE void scaled_exponentials(const pl_dtype dtype, int64_t V, const void *l, float m,
                                   float factor, void *dl)
{
#pragma GCC ivdep
    for (int64_t v = 0; v < V; v++)
        pl_put(dtype, dl, v, factor * pl_exp(pl_at(dtype, l, v) - m));
}

/** The target's element is formed apart, so that it too is rounded once. */
PL_INLINE void grad_body(const pl_dtype dtype, const call *c)
{
    for (int64_t r = 0; r < c->R; r++) {
        const int64_t v = c->targets[r] - c->v_begin;
        const bool here = v >= 0 && v < c->V;
        const void *l_r = pl_from(dtype, c->logits, r * c->V);
        void *dl_r = pl_to(dtype, c->dlogits, r * c->V);
        const float m = c->m_in[r], factor = (float)(c->scale / (double)c->s_in[r]);
        const float picked = here ? pl_at(dtype, l_r, v) : 0.0f;

        scaled_exponentials(dtype, c->V, l_r, m, factor, dl_r);
        if (here)
            pl_put(dtype, dl_r, v, factor * pl_exp(picked - m) - (float)c->scale);
    }
}

typedef enum { MAX, SUM, GRAD } pass;

PL_INLINE void any_pass(pass which, pl_dtype dtype, const call *c)
{
    if (which == MAX && dtype == PL_F32)
        max_body(PL_F32, c);
    else if (which == MAX)
        max_body(PL_BF16, c);
    else if (which == SUM && dtype == PL_F32)
        sum_body(PL_F32, c);
    else if (which == SUM)
        sum_body(PL_BF16, c);
    else if (dtype == PL_F32)
        grad_body(PL_F32, c);
    else
        grad_body(PL_BF16, c);
}

static void pass_generic(pass which, pl_dtype dtype, const call *c)
{
    any_pass(which, dtype, c);
}

PL_AVX2 static void pass_avx2(pass which, pl_dtype dtype, const call *c)
{
    any_pass(which, dtype, c);
}

PL_AVX512 static void pass_avx512(pass which, pl_dtype dtype, const call *c)
{
    any_pass(which, dtype, c);
}

static void run(pass which, pl_dtype dtype, const call *c)
{
    static void (*const per_isa[PL_N_ISA])(pass, pl_dtype, const call *) = {pass_generic, pass_avx2,
                                                                            pass_avx512};

    per_isa[pl_isa_vectors()](which, dtype, c);
}

void pl_xent_max(int64_t R, int64_t V, const float *logits, float *m)
{
    run(MAX, PL_F32, &(call){.R = R, .V = V, .logits = logits, .m = m});
}

void pl_xent_max_bf16(int64_t R, int64_t V, const pl_bf16 *logits, float *m)
{
    run(MAX, PL_BF16, &(call){.R = R, .V = V, .logits = logits, .m = m});
}

void pl_xent_sum(int64_t R, int64_t V, int64_t v_begin, const float *logits, const int32_t *targets,
                 const float *m, float *s, float *picked)
{
    run(SUM, PL_F32, &(call){R, V, v_begin, logits, targets, .m_in = m, .s = s, .picked = picked});
}

void pl_xent_sum_bf16(int64_t R, int64_t V, int64_t v_begin, const pl_bf16 *logits,
                      const int32_t *targets, const float *m, float *s, float *picked)
{
    run(SUM, PL_BF16, &(call){R, V, v_begin, logits, targets, .m_in = m, .s = s, .picked = picked});
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

void pl_xent_grad(int64_t R, int64_t V, int64_t v_begin, const float *logits,
                  const int32_t *targets, const float *m, const float *s, double scale,
                  float *dlogits)
{
    run(GRAD, PL_F32,
        &(call){R, V, v_begin, logits, targets, m, s, .scale = scale, .dlogits = dlogits});
}

void pl_xent_grad_bf16(int64_t R, int64_t V, int64_t v_begin, const pl_bf16 *logits,
                       const int32_t *targets, const float *m, const float *s, double scale,
                       pl_bf16 *dlogits)
{
    run(GRAD, PL_BF16,
        &(call){R, V, v_begin, logits, targets, m, s, .scale = scale, .dlogits = dlogits});
}
