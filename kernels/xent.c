/* xent -- cross-entropy in partials that shards can combine. */
#include "config.h"

#include "kernels/xent.h"

#include "kernels/isa.h"
#include "kernels/lanes.h"
#include "kernels/bypass.h"

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

/** The largest of l[V]: four chains of PL_LANES, as a maximum takes longer than a load. */
PL_INLINE float row_max(const pl_dtype dtype, int64_t V, const void *restrict l)
{
    enum { WIDTH = 4 * PL_LANES };
    float lanes[WIDTH], most = -INFINITY;
    int64_t v = 0;

    for (int i = 0; i < WIDTH; i++)
        lanes[i] = -INFINITY;
    for (; v + WIDTH <= V; v += WIDTH)
        for (int i = 0; i < WIDTH; i++) {
            const float x = pl_at(dtype, l, v + i);

            lanes[i] = pl_select(x > lanes[i], x, lanes[i]);
        }
    for (; v < V; v++)
        most = pl_at(dtype, l, v) > most ? pl_at(dtype, l, v) : most;
    for (int i = 0; i < WIDTH; i++)
        most = lanes[i] > most ? lanes[i] : most;
    return most;
}

PL_INLINE void max_body(const pl_dtype dtype, const call *c)
{
    for (int64_t r = 0; r < c->R; r++)
        c->m[r] = row_max(dtype, c->V, pl_from(dtype, c->logits, r * c->V));
}

/** lanes += exp(l[n] - m). */
PL_INLINE void add_exponentials(int64_t n, const float *restrict l, float m, float *lanes)
{
    int64_t v = 0;

    for (; v + PL_LANES <= n; v += PL_LANES)
        for (int i = 0; i < PL_LANES; i++)
            lanes[i] += pl_exp_weight(l[v + i] - m);
    for (int i = 0; v < n; v++, i++)
        lanes[i] += pl_exp_weight(l[v] - m);
}

/** Sum of exp(l[V] - m). */
PL_INLINE float sum_of_exponentials(const pl_dtype dtype, int64_t V, const void *l, float m)
{
    float lanes[PL_LANES] = {0}, wide[PL_BYPASS_TILE];

    if (dtype == PL_F32)
        add_exponentials(V, l, m, lanes);
    for (int64_t v = 0; v < V && dtype == PL_BF16; v += PL_BYPASS_TILE) {
        const int64_t n = V - v < PL_BYPASS_TILE ? V - v : PL_BYPASS_TILE;

        pl_widen(dtype, n, pl_from(dtype, l, v), wide);
        add_exponentials(n, wide, m, lanes);
    }
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

/** dl[n] = factor * exp(l[n] - m), less `scale` at the target; dl may equal l. The target's element
 * is formed apart, so that it too is rounded once. */
PL_INLINE void grad_part(const pl_dtype dtype, int64_t n, const void *l, float m, float factor,
                         int64_t target, float scale, void *dl)
{
    const bool here = target >= 0 && target < n;
    const float picked = here ? pl_at(dtype, l, target) : 0.0f;

#pragma GCC ivdep
    for (int64_t v = 0; v < n; v++)
        pl_put(dtype, dl, v, factor * pl_exp_weight(pl_at(dtype, l, v) - m));
    if (here)
        pl_put(dtype, dl, target, factor * pl_exp_weight(picked - m) - scale);
}

PL_INLINE void grad_body(const pl_dtype dtype, const call *c)
{
    const int64_t V = c->V;
    const size_t size = pl_dtype_bytes(dtype);
    const bool streams = c->logits != c->dlogits && pl_bypasses(c->R * V, size);
    float tile[PL_BYPASS_TILE];

    for (int64_t r = 0; r < c->R; r++) {
        const int64_t target = c->targets[r] - c->v_begin;
        const void *l_r = pl_from(dtype, c->logits, r * V);
        void *dl_r = pl_to(dtype, c->dlogits, r * V);
        const float m = c->m_in[r], scale = (float)c->scale;
        const float factor = (float)(c->scale / (double)c->s_in[r]);

        if (!streams)
            grad_part(dtype, V, l_r, m, factor, target, scale, dl_r);
        for (int64_t v = 0; v < V && streams; v += PL_BYPASS_TILE) {
            const int64_t n = V - v < PL_BYPASS_TILE ? V - v : PL_BYPASS_TILE;

            grad_part(dtype, n, pl_from(dtype, l_r, v), m, factor, target - v, scale, tile);
            pl_bypass(pl_to(dtype, dl_r, v), tile, (size_t)n * size);
        }
    }
    if (streams)
        pl_bypass_end();
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
