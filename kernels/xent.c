/* xent -- cross-entropy in partials that shards can combine. */
#include "config.h"

#include "kernels/xent.h"

#include "kernels/avx512.h"
#include "kernels/bypass.h"
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

enum { SUMS = 64 }; /* interleaved, of exponentials */

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

/** lanes[SUMS] += exp(l[n] - m). */
PL_INLINE void add_exponentials(int64_t n, const float *restrict l, float m, float *lanes)
{
    int64_t v = 0;

    for (; v + SUMS <= n; v += SUMS)
        for (int i = 0; i < SUMS; i++)
            lanes[i] += pl_exp_weight(l[v + i] - m);
    for (int i = 0; v < n; v++, i++)
        lanes[i] += pl_exp_weight(l[v] - m);
}

/** Sum of exp(l[V] - m). */
PL_INLINE float sum_of_exponentials(const pl_dtype dtype, int64_t V, const void *l, float m)
{
    float lanes[SUMS] = {0}, wide[PL_BYPASS_TILE];

    if (dtype == PL_F32)
        add_exponentials(V, l, m, lanes);
    for (int64_t v = 0; v < V && dtype == PL_BF16; v += PL_BYPASS_TILE) {
        const int64_t n = V - v < PL_BYPASS_TILE ? V - v : PL_BYPASS_TILE;

        pl_widen(dtype, n, pl_from(dtype, l, v), wide);
        add_exponentials(n, wide, m, lanes);
    }
    for (int width = SUMS / 2; width >= PL_LANES; width /= 2)
        for (int i = 0; i < width; i++)
            lanes[i] += lanes[i + width];
    return pl_lanes_sum(lanes);
}

/** The target's logit in row r, 0 where it is held elsewhere. */
PL_INLINE float picked_of(const pl_dtype dtype, const call *c, int64_t r)
{
    const int64_t v = c->targets[r] - c->v_begin;

    return v >= 0 && v < c->V ? pl_at(dtype, c->logits, r * c->V + v) : 0.0f;
}

PL_INLINE void sum_body(const pl_dtype dtype, const call *c)
{
    for (int64_t r = 0; r < c->R; r++) {
        const void *l_r = pl_from(dtype, c->logits, r * c->V);

        c->s[r] = sum_of_exponentials(dtype, c->V, l_r, c->m_in[r]);
        c->picked[r] = picked_of(dtype, c, r);
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

/* ---- AVX-512: 64 elements at a time, bf16 by its own exponential (kernels/avx512.h) */

#if defined(__x86_64__)

/* How far ahead logits are fetched that no cache holds: the CPU's own fetching waits for loads that
 * in turn wait for arithmetic. */
enum { AHEAD_BYTES = 6144 };

/** Fetch the block of l[v] that comes AHEAD_BYTES later. */
PL_AVX512_INLINE void fetch_ahead(const pl_form form, const void *l, int64_t v)
{
    const pl_dtype dtype = pl_form_dtype(form);

    pl_fetch(pl_from(dtype, l, v), AHEAD_BYTES, PL_BLOCK * pl_dtype_bytes(dtype));
}

/** m, but for NaNs, and x where `there`. */
PL_AVX512_INLINE __m512 larger(__m512 m, __mmask16 there, __m512 x)
{
    return _mm512_mask_max_ps(m, there, x, m);
}

PL_AVX512_INLINE float row_max_wide(const pl_form form, int64_t V, const void *l)
{
    __m512 m[PL_VECTORS];
    int64_t v = 0;

    PL_EACH (k)
        m[k] = _mm512_set1_ps(-INFINITY);
    for (; v + PL_BLOCK <= V; v += PL_BLOCK) {
        const pl_block x = pl_block_load(form, l, v);

        PL_EACH (k)
            m[k] = larger(m[k], 0xffff, x.v[k]);
    }
    if (v < V) {
        const pl_block x = pl_block_load_part(form, l, v, V - v);

        PL_EACH (k)
            m[k] = larger(m[k], pl_block_mask(form, V - v, k), x.v[k]);
    }
    return _mm512_reduce_max_ps(
        _mm512_max_ps(_mm512_max_ps(m[0], m[1]), _mm512_max_ps(m[2], m[3])));
}

/** sum += e^(x - m), of the first n elements of the block. */
PL_AVX512_INLINE void add_weights(const pl_form form, const bool whole, int64_t n, pl_block x,
                                  float m, __m512 *sum)
{
    PL_EACH (k)
        x.v[k] = _mm512_sub_ps(x.v[k], _mm512_set1_ps(m));
    const pl_exps w = pl_weights_of(form, x.v);

    PL_EACH (k) {
        const __mmask16 there = whole ? w.there[k] : w.there[k] & pl_block_mask(form, n, k);

        sum[k] = _mm512_mask_add_ps(sum[k], there, sum[k], w.e[k]);
    }
}

PL_AVX512_INLINE float row_sum_wide(const pl_form form, const bool far, int64_t V, const void *l,
                                    float m)
{
    __m512 sum[PL_VECTORS];
    int64_t v = 0;

    PL_EACH (k)
        sum[k] = _mm512_setzero_ps();
    for (; v + PL_BLOCK <= V; v += PL_BLOCK) {
        if (far)
            fetch_ahead(form, l, v);
        add_weights(form, true, PL_BLOCK, pl_block_load(form, l, v), m, sum);
    }
    if (v < V)
        add_weights(form, false, V - v, pl_block_load_part(form, l, v, V - v), m, sum);
    return pl_block_sum(form, sum);
}

/** dl[n] = factor e^(l[n] - m), n <= 64. */
PL_AVX512_INLINE void grad_block(const pl_form form, const bool past, int64_t n, const void *l,
                                 int64_t v, float m, float factor, void *dl)
{
    const bool whole = n >= PL_BLOCK;
    pl_block x = whole ? pl_block_load(form, l, v) : pl_block_load_part(form, l, v, n);

    PL_EACH (k)
        x.v[k] = _mm512_sub_ps(x.v[k], _mm512_set1_ps(m));
    const pl_exps w = pl_weights_of(form, x.v);

    PL_EACH (k)
        x.v[k] = _mm512_maskz_mul_ps(w.there[k], w.e[k], _mm512_set1_ps(factor));
    if (whole)
        pl_block_store(form, past, dl, v, x);
    else
        pl_block_store_part(form, dl, v, n, x);
}

/** As grad_part; `past` the caches from dl's first whole line on. */
PL_AVX512_INLINE void grad_row_wide(const pl_form form, const bool past, int64_t V, const void *l,
                                    float m, float factor, int64_t target, float scale, void *dl)
{
    const pl_dtype dtype = pl_form_dtype(form);
    const bool here = target >= 0 && target < V;
    const float picked = here ? pl_at(dtype, l, target) : 0.0f;
    int64_t v = 0;

    if (past && pl_to_line(form, dl, V) > 0) {
        v = pl_to_line(form, dl, V);
        grad_block(form, false, v, l, 0, m, factor, dl);
    }
    for (; v + PL_BLOCK <= V; v += PL_BLOCK) {
        if (past)
            fetch_ahead(form, l, v);
        grad_block(form, past, PL_BLOCK, l, v, m, factor, dl);
    }
    if (v < V)
        grad_block(form, false, V - v, l, v, m, factor, dl);
    if (here) {
        const __m512 x = _mm512_set1_ps(picked - m);
        const pl_exps w = pl_weights_of(form, (const __m512[]){x, x, x, x});
        const float p = w.there[0] ? _mm512_cvtss_f32(w.e[0]) : 0.0f;

        pl_put(dtype, dl, target, factor * p - scale);
    }
}

PL_AVX512_INLINE void grad_rows_wide(const pl_form form, const call *c)
{
    const pl_dtype dtype = pl_form_dtype(form);
    const int64_t V = c->V;
    const bool past = c->logits != c->dlogits && pl_bypasses(c->R * V, pl_dtype_bytes(dtype));

    for (int64_t r = 0; r < c->R; r++) {
        const int64_t target = c->targets[r] - c->v_begin;
        const void *l_r = pl_from(dtype, c->logits, r * V);
        void *dl_r = pl_to(dtype, c->dlogits, r * V);
        const float m = c->m_in[r], scale = (float)c->scale;
        const float factor = (float)(c->scale / (double)c->s_in[r]);

        if (past)
            grad_row_wide(form, true, V, l_r, m, factor, target, scale, dl_r);
        else
            grad_row_wide(form, false, V, l_r, m, factor, target, scale, dl_r);
    }
    if (past)
        pl_bypass_end();
}

PL_AVX512_INLINE void sum_rows_wide(const pl_form form, const call *c)
{
    const pl_dtype dtype = pl_form_dtype(form);
    const bool far = pl_bypasses(c->R * c->V, pl_dtype_bytes(dtype));

    for (int64_t r = 0; r < c->R; r++) {
        const void *l_r = pl_from(dtype, c->logits, r * c->V);

        c->s[r] = far ? row_sum_wide(form, true, c->V, l_r, c->m_in[r])
                      : row_sum_wide(form, false, c->V, l_r, c->m_in[r]);
        c->picked[r] = picked_of(dtype, c, r);
    }
}

PL_AVX512_INLINE void pass_wide(const pl_form form, pass which, const call *c)
{
    const pl_dtype dtype = pl_form_dtype(form);

    if (which == SUM)
        sum_rows_wide(form, c);
    else if (which == GRAD)
        grad_rows_wide(form, c);
    for (int64_t r = 0; r < c->R && which == MAX; r++)
        c->m[r] = row_max_wide(form, c->V, pl_from(dtype, c->logits, r * c->V));
}

PL_AVX512 static void pass_avx512(pass which, pl_dtype dtype, const call *c)
{
    if (dtype == PL_F32)
        pass_wide(PL_WIDE, which, c);
    else if (pl_isa_get() == PL_ISA_AVX512BF16)
        pass_wide(PL_NARROW_BY_CPU, which, c);
    else
        pass_wide(PL_NARROW, which, c);
}
#else
#define pass_avx512 pass_generic /* never chosen */
#endif

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
