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
 * in turn wait for arithmetic, and stops at the end of a page. */
enum { AHEAD_BYTES = 12288 };

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

/* How the exponentials of a row are formed. `near` rows, of bf16 logits and a small m, take m off
 * within the exponential, at no cost: e^l 2^-origin, over what that is at m. Others take it off
 * each logit first. */
typedef struct {
    float m, origin;
    float least; /* what is below it, m taken off first or not, counts as 0 */
    float at_m;  /* near 1; 1 where m is taken off first */
} weighing;

/* The largest |m| of near rows, whose origins are at most 512 then. */
enum { NEAR = 256 };

/** e^(l - m) at_m as power[] * rest[], of bf16, or rest[], of f32, where there[]. */
PL_AVX512_INLINE void weigh(const pl_form form, const bool near, const weighing *w, pl_block l,
                            __m512 *power, __m512 *rest, __mmask16 *there)
{
    PL_EACH (k) {
        if (!near)
            l.v[k] = _mm512_sub_ps(l.v[k], _mm512_set1_ps(w->m));
        there[k] = pl_not_below(w->least, l.v[k]);
    }
    if (form == PL_WIDE)
        pl_exps_wide(false, l.v, rest);
    else
        pl_exps_in_parts(false, near ? w->origin : 0.0f, l.v, power, rest);
}

/** e^(l - m) factor; of bf16, factor is over at_m. */
PL_AVX512_INLINE pl_block weights_of(const pl_form form, const bool near, const weighing *w,
                                     pl_block l, float factor)
{
    __m512 power[PL_VECTORS], rest[PL_VECTORS];
    __mmask16 there[PL_VECTORS];

    weigh(form, near, w, l, power, rest, there);
    PL_EACH (k) {
        const __m512 e = form == PL_WIDE ? rest[k] : _mm512_mul_ps(power[k], rest[k]);

        l.v[k] = _mm512_maskz_mul_ps(there[k], e, _mm512_set1_ps(factor));
    }
    return l;
}

/** The first element of weights_of a block full of l. */
PL_AVX512_INLINE float weight_of(const pl_form form, const bool near, const weighing *w, float l,
                                 float factor)
{
    const __m512 x = _mm512_set1_ps(l);

    return _mm512_cvtss_f32(weights_of(form, near, w, (pl_block){.v = {x, x, x, x}}, factor).v[0]);
}

PL_AVX512_INLINE bool is_near(const pl_form form, float m)
{
    return form != PL_WIDE && fabsf(m) <= NEAR; /* not of infinities and NaNs */
}

PL_AVX512_INLINE weighing weighing_of(const pl_form form, const bool near, float m)
{
    weighing w = {.m = m, .least = pl_exps_least(form), .at_m = 1.0f};

    if (near) {
        w.origin = rintf(m * (16 * 1.44269504f)) / 16;
        w.least += m;
        w.at_m = weight_of(form, true, &w, m, 1.0f);
    }
    return w;
}

/** sum += e^(l - m) at_m, of the first n elements of the block. */
PL_AVX512_INLINE void add_weights(const pl_form form, const bool near, const bool whole, int64_t n,
                                  const weighing *w, pl_block l, __m512 *sum)
{
    __m512 power[PL_VECTORS], rest[PL_VECTORS];
    __mmask16 there[PL_VECTORS];

    weigh(form, near, w, l, power, rest, there);
    PL_EACH (k) {
        const __mmask16 some = whole ? there[k] : there[k] & pl_block_mask(form, n, k);

        sum[k] = form == PL_WIDE ? _mm512_mask_add_ps(sum[k], some, sum[k], rest[k])
                                 : _mm512_mask3_fmadd_ps(power[k], rest[k], sum[k], some);
    }
}

PL_AVX512_INLINE float row_sum_wide(const pl_form form, const bool near, const bool far, int64_t V,
                                    const void *l, float m)
{
    const weighing w = weighing_of(form, near, m);
    __m512 sum[PL_VECTORS];
    int64_t v = 0;

    PL_EACH (k)
        sum[k] = _mm512_setzero_ps();
    for (; v + PL_BLOCK <= V; v += PL_BLOCK) {
        if (far)
            fetch_ahead(form, l, v);
        add_weights(form, near, true, PL_BLOCK, &w, pl_block_load(form, l, v), sum);
    }
    if (v < V)
        add_weights(form, near, false, V - v, &w, pl_block_load_part(form, l, v, V - v), sum);
    return pl_block_sum(form, sum) / w.at_m;
}

/** dl[n] = factor e^(l[n] - m) at_m, n <= 64. */
PL_AVX512_INLINE void grad_block(const pl_form form, const bool near, const bool past, int64_t n,
                                 const weighing *w, const void *l, int64_t v, float factor,
                                 void *dl)
{
    const bool whole = n >= PL_BLOCK;
    const pl_block x =
        weights_of(form, near, w,
                   whole ? pl_block_load(form, l, v) : pl_block_load_part(form, l, v, n), factor);

    if (whole)
        pl_block_store(form, past, dl, v, x);
    else
        pl_block_store_part(form, dl, v, n, x);
}

/** As grad_part; `past` the caches from dl's first whole line on. */
PL_AVX512_INLINE void grad_row_wide(const pl_form form, const bool near, const bool past, int64_t V,
                                    const void *l, float m, float factor, int64_t target,
                                    float scale, void *dl)
{
    const pl_dtype dtype = pl_form_dtype(form);
    const bool here = target >= 0 && target < V;
    const float picked = here ? pl_at(dtype, l, target) : 0.0f;
    const weighing w = weighing_of(form, near, m);
    int64_t v = 0;

    factor /= w.at_m;
    if (past && pl_to_line(form, dl, V) > 0) {
        v = pl_to_line(form, dl, V);
        grad_block(form, near, false, v, &w, l, 0, factor, dl);
    }
    for (; v + PL_BLOCK <= V; v += PL_BLOCK) {
        if (past)
            fetch_ahead(form, l, v);
        grad_block(form, near, past, PL_BLOCK, &w, l, v, factor, dl);
    }
    if (v < V)
        grad_block(form, near, false, V - v, &w, l, v, factor, dl);
    if (here)
        pl_put(dtype, dl, target, weight_of(form, near, &w, picked, factor) - scale);
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

        if (is_near(form, m) && past)
            grad_row_wide(form, true, true, V, l_r, m, factor, target, scale, dl_r);
        else if (is_near(form, m))
            grad_row_wide(form, true, false, V, l_r, m, factor, target, scale, dl_r);
        else if (past)
            grad_row_wide(form, false, true, V, l_r, m, factor, target, scale, dl_r);
        else
            grad_row_wide(form, false, false, V, l_r, m, factor, target, scale, dl_r);
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
        const float m = c->m_in[r];

        if (is_near(form, m))
            c->s[r] = far ? row_sum_wide(form, true, true, c->V, l_r, m)
                          : row_sum_wide(form, true, false, c->V, l_r, m);
        else
            c->s[r] = far ? row_sum_wide(form, false, true, c->V, l_r, m)
                          : row_sum_wide(form, false, false, c->V, l_r, m);
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
