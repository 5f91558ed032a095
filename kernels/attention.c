/* attention -- tiles of 64 queries by 64 keys, products by register tiles. */
#include "config.h"

#include "kernels/attention.h"

#include "kernels/isa.h"
#include "kernels/lanes.h"
#include "kernels/tile.h"
#include "src/base/panic.h"

#include <math.h>
#include <string.h>

/* Scores are kept transposed, s[key, query]: queries fill the lanes, so that the softmax works
 * elementwise on vectors, and both products that read the weights find them where they are.
 *
 *   forward   s = k q^T;  w = exp(s - m);  o += w^T v
 *   backward  s = k q^T;  w = exp(s - lse);  dw = v do^T;  ds = w (dw - delta);
 *             dv += w do;  dk += ds q;  dq += ds^T k
 *
 * q is scaled when it is packed. Packed rows have Hp >= H elements, zeros beyond H; blocks of rows
 * are zero beyond T. Zero rows only ever add zeros. */

enum { BLOCK = 64 };

static int64_t round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/** Scratch of one head, or of one block of BLOCK queries. */
typedef struct {
    float *k, *v, *dk, *dv; /* [Tp, Hp] */
    float *q, *do_, *acc;   /* [BLOCK, Hp]; acc is o or dq */
    float *q_t, *do_t;      /* [Hp, BLOCK] */
    float *s, *dw;          /* [BLOCK keys, BLOCK queries] */
    float *m, *l, *factor;  /* [BLOCK]; backward: lse, delta */
} workspace;

int64_t pl_attention_scratch(int64_t T, int64_t H)
{
    const int64_t Tp = round_up(T, BLOCK), Hp = round_up(H, PL_TILE_MOST);

    return 4 * Tp * Hp + 5 * BLOCK * Hp + 2 * BLOCK * BLOCK + 3 * BLOCK;
}

static workspace divide(float *scratch, int64_t T, int64_t Hp)
{
    const int64_t head = round_up(T, BLOCK) * Hp, block = BLOCK * Hp;
    workspace w;

    w.k = scratch;
    w.v = w.k + head;
    w.dk = w.v + head;
    w.dv = w.dk + head;
    w.q = w.dv + head;
    w.do_ = w.q + block;
    w.acc = w.do_ + block;
    w.q_t = w.acc + block;
    w.do_t = w.q_t + block;
    w.s = w.do_t + block;
    w.dw = w.s + BLOCK * BLOCK;
    w.m = w.dw + BLOCK * BLOCK;
    w.l = w.m + BLOCK;
    w.factor = w.l + BLOCK;
    return w;
}

/** to[n_to, Hp] = scale * from[n_from, H], rows `step` apart, padded with zeros. */
PL_INLINE void pack_body(const pl_dtype dtype, int64_t n_from, int64_t n_to, int64_t H, int64_t Hp,
                         float scale, const void *restrict from, int64_t step, float *restrict to)
{
    for (int64_t r = 0; r < n_from; r++, from = pl_from(dtype, from, step), to += Hp) {
        for (int64_t h = 0; h < H; h++)
            to[h] = scale * pl_at(dtype, from, h);
        for (int64_t h = H; h < Hp; h++)
            to[h] = 0.0f;
    }
    if (n_to > n_from)
        memset(to, 0, (size_t)((n_to - n_from) * Hp) * sizeof *to);
}

static void pack(pl_dtype dtype, int64_t n_from, int64_t n_to, int64_t H, int64_t Hp, float scale,
                 const void *from, int64_t step, float *to)
{
    if (dtype == PL_BF16)
        pack_body(PL_BF16, n_from, n_to, H, Hp, scale, from, step, to);
    else
        pack_body(PL_F32, n_from, n_to, H, Hp, scale, from, step, to);
}

/** to[H] = scale * from[H]. */
static void unpack(pl_dtype dtype, int64_t H, float scale, const float *restrict from,
                   void *restrict to)
{
    for (int64_t h = 0; h < H && dtype == PL_F32; h++)
        pl_put(PL_F32, to, h, scale * from[h]);
    for (int64_t h = 0; h < H && dtype == PL_BF16; h++)
        pl_put(PL_BF16, to, h, scale * from[h]);
}

/** to[H, BLOCK] = from[BLOCK, Hp] transposed. */
static void transpose(int64_t n, int64_t H, int64_t Hp, const float *restrict from,
                      float *restrict to)
{
    for (int64_t h = 0; h < H; h++)
        for (int64_t r = 0; r < n; r++)
            to[h * BLOCK + r] = from[r * Hp + h];
}

/** s[n keys, n queries] = k[n, H] . q_t[H, n]; on the diagonal only tiles with a visible pair. */
static void scores(const pl_tile *tile, int64_t n, int64_t H, int64_t Hp, bool diagonal,
                   const float *k, const float *q_t, float *s)
{
    for (int64_t j = 0; j < n; j += tile->cols) {
        const int64_t end = diagonal ? least(n, j + tile->cols) : BLOCK;

        for (int64_t i = 0; i < end; i += tile->rows)
            tile->product(H, k + i * Hp, Hp, 1, q_t + j, BLOCK, false, s + i * BLOCK + j, BLOCK);
    }
}

/** y[n queries, Hp] += s[keys, n]^T . x[keys, Hp]. */
static void add_over_keys(const pl_tile *tile, int64_t n, int64_t Hp, bool diagonal, const float *s,
                          const float *x, float *y)
{
    for (int64_t j = 0; j < Hp; j += tile->cols)
        for (int64_t i = 0; i < n; i += tile->rows)
            tile->product(diagonal ? i + tile->rows : BLOCK, s + i, 1, BLOCK, x + j, Hp, true,
                          y + i * Hp + j, Hp);
}

/** y[keys, Hp] += s[keys, n] . x[n queries, Hp]. */
static void add_over_queries(const pl_tile *tile, int64_t n, int64_t Hp, bool diagonal,
                             const float *s, const float *x, float *y)
{
    const int64_t n_keys = diagonal ? n : BLOCK;

    for (int64_t j = 0; j < Hp; j += tile->cols)
        for (int64_t i = 0; i < n_keys; i += tile->rows) {
            const int64_t first = diagonal ? i : 0; /* earlier queries do not see these keys */

            tile->product(n - first, s + i * BLOCK + first, BLOCK, 1, x + first * Hp + j, Hp, true,
                          y + i * Hp + j, Hp);
        }
}

/** s[key, query] = value where key > query. */
static void mask(int64_t n, float value, float *s)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++)
            s[i * BLOCK + j] = value;
}

/** A tile of the online softmax: m and l take in s[n_keys, BLOCK]; s becomes exp(s - m); factor is
 * what earlier sums shrink by. */
PL_INLINE void softmax_body(int64_t n_keys, float *restrict s, float *restrict m, float *restrict l,
                            float *restrict factor)
{
    float most[BLOCK], sum[BLOCK];

    for (int j = 0; j < BLOCK; j++)
        most[j] = m[j];
    for (int64_t i = 0; i < n_keys; i++)
        for (int j = 0; j < BLOCK; j++)
            most[j] = pl_select(s[i * BLOCK + j] > most[j], s[i * BLOCK + j], most[j]);
    for (int j = 0; j < BLOCK; j++) {
        factor[j] = pl_exp(m[j] - most[j]);
        m[j] = most[j];
        sum[j] = 0.0f;
    }
    for (int64_t i = 0; i < n_keys; i++)
        for (int j = 0; j < BLOCK; j++) {
            const float w = pl_exp(s[i * BLOCK + j] - most[j]);

            s[i * BLOCK + j] = w;
            sum[j] += w;
        }
    for (int j = 0; j < BLOCK; j++)
        l[j] = l[j] * factor[j] + sum[j];
}

/** s becomes w = exp(s - lse), dw becomes ds = w (dw - delta). */
PL_INLINE void gradient_body(int64_t n_keys, float *restrict s, float *restrict dw,
                             const float *restrict lse, const float *restrict delta)
{
    for (int64_t i = 0; i < n_keys; i++)
        for (int j = 0; j < BLOCK; j++) {
            const float w = pl_exp(s[i * BLOCK + j] - lse[j]);

            s[i * BLOCK + j] = w;
            dw[i * BLOCK + j] = w * (dw[i * BLOCK + j] - delta[j]);
        }
}

static void softmax_generic(int64_t n_keys, float *s, float *m, float *l, float *factor)
{
    softmax_body(n_keys, s, m, l, factor);
}

PL_AVX2 static void softmax_avx2(int64_t n_keys, float *s, float *m, float *l, float *factor)
{
    softmax_body(n_keys, s, m, l, factor);
}

PL_AVX512 static void softmax_avx512(int64_t n_keys, float *s, float *m, float *l, float *factor)
{
    softmax_body(n_keys, s, m, l, factor);
}

static void gradient_generic(int64_t n_keys, float *s, float *dw, const float *lse,
                             const float *delta)
{
    gradient_body(n_keys, s, dw, lse, delta);
}

PL_AVX2 static void gradient_avx2(int64_t n_keys, float *s, float *dw, const float *lse,
                                  const float *delta)
{
    gradient_body(n_keys, s, dw, lse, delta);
}

PL_AVX512 static void gradient_avx512(int64_t n_keys, float *s, float *dw, const float *lse,
                                      const float *delta)
{
    gradient_body(n_keys, s, dw, lse, delta);
}

static void softmax(int64_t n_keys, float *s, float *m, float *l, float *factor)
{
    static void (*const run[PL_N_ISA])(int64_t, float *, float *, float *,
                                       float *) = {softmax_generic, softmax_avx2, softmax_avx512};

    run[pl_isa_vectors()](n_keys, s, m, l, factor);
}

static void gradient(int64_t n_keys, float *s, float *dw, const float *lse, const float *delta)
{
    static void (*const run[PL_N_ISA])(int64_t, float *, float *, const float *, const float *) = {
        gradient_generic, gradient_avx2, gradient_avx512};

    run[pl_isa_vectors()](n_keys, s, dw, lse, delta);
}

/** o and lse of n_real queries from t0 on; q, o, lse point at the first; row steps in elements. */
static void forward_block(const pl_tile *tile, const workspace *w, pl_dtype dtype, int64_t t0,
                          int64_t n_real, int64_t H, float scale, const void *q, int64_t q_step,
                          void *o, float *lse, int64_t lse_step)
{
    const int64_t Hp = round_up(H, tile->cols), n = round_up(n_real, tile->cols);

    pack(dtype, n_real, n, H, Hp, scale, q, q_step, w->q);
    transpose(n, H, Hp, w->q, w->q_t);
    memset(w->acc, 0, (size_t)(n * Hp) * sizeof *w->acc);
    for (int j = 0; j < BLOCK; j++) {
        w->m[j] = -INFINITY;
        w->l[j] = 0.0f;
    }
    for (int64_t s0 = 0; s0 <= t0; s0 += BLOCK) {
        const bool diagonal = s0 == t0;

        scores(tile, n, H, Hp, diagonal, w->k + s0 * Hp, w->q_t, w->s);
        if (diagonal)
            mask(n, -INFINITY, w->s);
        softmax(diagonal ? n : BLOCK, w->s, w->m, w->l, w->factor);
        for (int64_t i = 0; i < n && s0 > 0; i++)
            for (int64_t h = 0; h < Hp; h++)
                w->acc[i * Hp + h] *= w->factor[i];
        add_over_keys(tile, n, Hp, diagonal, w->s, w->v + s0 * Hp, w->acc);
    }
    for (int64_t i = 0; i < n_real; i++) {
        unpack(dtype, H, 1.0f / w->l[i], w->acc + i * Hp, pl_to(dtype, o, i * q_step));
        lse[i * lse_step] = w->m[i] + logf(w->l[i]);
    }
}

static void forward(pl_dtype dtype, int64_t T, int64_t B, int64_t N, int64_t K, int64_t H,
                    float scale, const void *q, const void *k, const void *v, void *o, float *lse,
                    float *scratch, const pl_progress *progress)
{
    if (T == 0 || B == 0 || N == 0 || H == 0)
        return;
    PL_ASSERT(K > 0 && N % K == 0);

    const pl_tile *tile = pl_tile_get();
    const int64_t Hp = round_up(H, tile->cols), Tp = round_up(T, BLOCK);
    const int64_t q_step = B * N * H, k_step = B * K * H, group = N / K;
    const workspace w = divide(scratch, T, Hp);

    for (int64_t b = 0; b < B; b++)
        for (int64_t n = 0; n < N; n++) {
            const int64_t kv = (b * K + n / group) * H;

            if (n % group == 0) {
                pack(dtype, T, Tp, H, Hp, 1.0f, pl_from(dtype, k, kv), k_step, w.k);
                pack(dtype, T, Tp, H, Hp, 1.0f, pl_from(dtype, v, kv), k_step, w.v);
            }
            for (int64_t t0 = 0; t0 < T; t0 += BLOCK) {
                const int64_t at = t0 * q_step + (b * N + n) * H;

                forward_block(tile, &w, dtype, t0, least(T - t0, BLOCK), H, scale,
                              pl_from(dtype, q, at), q_step, pl_to(dtype, o, at),
                              lse + (t0 * B + b) * N + n, B * N);
            }
            pl_progress_call(progress);
        }
}

void pl_attention_forward(int64_t T, int64_t B, int64_t N, int64_t K, int64_t H, float scale,
                          const float *q, const float *k, const float *v, float *o, float *lse,
                          float *scratch, const pl_progress *progress)
{
    forward(PL_F32, T, B, N, K, H, scale, q, k, v, o, lse, scratch, progress);
}

void pl_attention_forward_bf16(int64_t T, int64_t B, int64_t N, int64_t K, int64_t H, float scale,
                               const pl_bf16 *q, const pl_bf16 *k, const pl_bf16 *v, pl_bf16 *o,
                               float *lse, float *scratch, const pl_progress *progress)
{
    forward(PL_BF16, T, B, N, K, H, scale, q, k, v, o, lse, scratch, progress);
}

/** delta[n_real] = the sum over H of o * do_. */
PL_INLINE void delta_body(const pl_dtype dtype, int64_t n_real, int64_t H, const void *o,
                          const void *do_, int64_t step, float *delta)
{
    for (int64_t i = 0; i < n_real; i++) {
        const void *o_i = pl_from(dtype, o, i * step), *do_i = pl_from(dtype, do_, i * step);
        float lanes[PL_LANES] = {0};
        int64_t h = 0;

        for (; h + PL_LANES <= H; h += PL_LANES)
            for (int l = 0; l < PL_LANES; l++)
                lanes[l] += pl_at(dtype, o_i, h + l) * pl_at(dtype, do_i, h + l);
        for (int l = 0; h < H; h++, l++)
            lanes[l] += pl_at(dtype, o_i, h) * pl_at(dtype, do_i, h);
        delta[i] = pl_lanes_sum(lanes);
    }
}

static void sum_delta(pl_dtype dtype, int64_t n_real, int64_t H, const void *o, const void *do_,
                      int64_t step, float *delta)
{
    if (dtype == PL_BF16)
        delta_body(PL_BF16, n_real, H, o, do_, step, delta);
    else
        delta_body(PL_F32, n_real, H, o, do_, step, delta);
}

/** dq of n_real queries from t0 on, and their share of the head's dk and dv. */
static void backward_block(const pl_tile *tile, const workspace *w, pl_dtype dtype, int64_t t0,
                           int64_t n_real, int64_t H, float scale, const void *q, const void *o,
                           const void *do_, int64_t q_step, const float *lse, int64_t lse_step,
                           void *dq)
{
    const int64_t Hp = round_up(H, tile->cols), n = round_up(n_real, tile->cols);
    float *lse_block = w->m, *delta = w->l;

    pack(dtype, n_real, n, H, Hp, scale, q, q_step, w->q);
    pack(dtype, n_real, n, H, Hp, 1.0f, do_, q_step, w->do_);
    transpose(n, H, Hp, w->q, w->q_t);
    transpose(n, H, Hp, w->do_, w->do_t);
    memset(w->acc, 0, (size_t)(n * Hp) * sizeof *w->acc);
    memset(delta, 0, BLOCK * sizeof *delta);
    sum_delta(dtype, n_real, H, o, do_, q_step, delta);
    for (int64_t i = 0; i < BLOCK; i++)
        lse_block[i] = i < n_real ? lse[i * lse_step] : 0.0f;

    for (int64_t s0 = 0; s0 <= t0; s0 += BLOCK) {
        const bool diagonal = s0 == t0;
        const int64_t at = s0 * Hp;

        scores(tile, n, H, Hp, diagonal, w->k + at, w->q_t, w->s);
        scores(tile, n, H, Hp, diagonal, w->v + at, w->do_t, w->dw);
        if (diagonal) {
            mask(n, -INFINITY, w->s);
            mask(n, 0.0f, w->dw);
        }
        gradient(diagonal ? n : BLOCK, w->s, w->dw, lse_block, delta);
        add_over_queries(tile, n, Hp, diagonal, w->s, w->do_, w->dv + at);
        add_over_queries(tile, n, Hp, diagonal, w->dw, w->q, w->dk + at);
        add_over_keys(tile, n, Hp, diagonal, w->dw, w->k + at, w->acc);
    }
    for (int64_t i = 0; i < n_real; i++)
        unpack(dtype, H, scale, w->acc + i * Hp, pl_to(dtype, dq, i * q_step));
}

static void backward(pl_dtype dtype, int64_t T, int64_t B, int64_t N, int64_t K, int64_t H,
                     float scale, const void *q, const void *k, const void *v, const void *o,
                     const void *do_, const float *lse, void *dq, void *dk, void *dv,
                     float *scratch, const pl_progress *progress)
{
    if (T == 0 || B == 0 || K == 0 || H == 0)
        return;
    PL_ASSERT(N % K == 0);

    const pl_tile *tile = pl_tile_get();
    const int64_t Hp = round_up(H, tile->cols), Tp = round_up(T, BLOCK);
    const int64_t q_step = B * N * H, k_step = B * K * H, group = N / K;
    const workspace w = divide(scratch, T, Hp);

    for (int64_t b = 0; b < B; b++)
        for (int64_t kv = 0; kv < K; kv++) {
            const int64_t at_k = (b * K + kv) * H;

            pack(dtype, T, Tp, H, Hp, 1.0f, pl_from(dtype, k, at_k), k_step, w.k);
            pack(dtype, T, Tp, H, Hp, 1.0f, pl_from(dtype, v, at_k), k_step, w.v);
            memset(w.dk, 0, (size_t)(Tp * Hp) * sizeof *w.dk);
            memset(w.dv, 0, (size_t)(Tp * Hp) * sizeof *w.dv);
            for (int64_t n = kv * group; n < (kv + 1) * group; n++) {
                for (int64_t t0 = 0; t0 < T; t0 += BLOCK) {
                    const int64_t at = t0 * q_step + (b * N + n) * H;

                    backward_block(tile, &w, dtype, t0, least(T - t0, BLOCK), H, scale,
                                   pl_from(dtype, q, at), pl_from(dtype, o, at),
                                   pl_from(dtype, do_, at), q_step, lse + (t0 * B + b) * N + n,
                                   B * N, pl_to(dtype, dq, at));
                }
                pl_progress_call(progress);
            }
            for (int64_t t = 0; t < T; t++) {
                unpack(dtype, H, 1.0f, w.dk + t * Hp, pl_to(dtype, dk, at_k + t * k_step));
                unpack(dtype, H, 1.0f, w.dv + t * Hp, pl_to(dtype, dv, at_k + t * k_step));
            }
        }
}

void pl_attention_backward(int64_t T, int64_t B, int64_t N, int64_t K, int64_t H, float scale,
                           const float *q, const float *k, const float *v, const float *o,
                           const float *do_, const float *lse, float *dq, float *dk, float *dv,
                           float *scratch, const pl_progress *progress)
{
    backward(PL_F32, T, B, N, K, H, scale, q, k, v, o, do_, lse, dq, dk, dv, scratch, progress);
}

void pl_attention_backward_bf16(int64_t T, int64_t B, int64_t N, int64_t K, int64_t H, float scale,
                                const pl_bf16 *q, const pl_bf16 *k, const pl_bf16 *v,
                                const pl_bf16 *o, const pl_bf16 *do_, const float *lse, pl_bf16 *dq,
                                pl_bf16 *dk, pl_bf16 *dv, float *scratch,
                                const pl_progress *progress)
{
    backward(PL_BF16, T, B, N, K, H, scale, q, k, v, o, do_, lse, dq, dk, dv, scratch, progress);
}
