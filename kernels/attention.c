/* attention -- tiles of 64 queries by 64 keys, products by register tiles. */
#include "config.h"

#include "kernels/attention.h"

#include "kernels/attention_parts.h"
#include "kernels/isa.h"
#include "kernels/tile.h"
#include "src/base/panic.h"

/* Scores are kept transposed, s[key, query]: queries fill the lanes, so that the softmax works
 * elementwise on vectors, and both products that read the weights find them where they are.
 *
 *   forward   s = k q^T;  w = exp(s - m);  o += w^T v
 *   backward  s = k q^T;  w = exp(s - lse);  dw = v do^T;  ds = w (dw - delta);
 *             dv += w do;  dk += ds q;  dq += ds^T k
 *
 * Packed rows have Hp >= H elements, zeros beyond H; blocks of rows are zero beyond T. Zero rows
 * only ever add zeros. Where the tile multiplies pairs of bf16, weights and ds are rounded to bf16,
 * and everything that a product sums over rows of is also kept as pairs of rows. */

static int64_t round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/** Scratch of one head, or of one block of BLOCK queries. With f32, rows and pairs are one array,
 * and weights replace scores. */
typedef struct {
    float *k, *v, *k_pairs, *v_pairs;    /* [Tp, Hp / pairs], [Tp / pairs, Hp] */
    float *dk, *dv;                      /* [Tp, Hp] */
    float *q, *do_, *q_pairs, *do_pairs; /* [BLOCK, Hp / pairs], [BLOCK / pairs, Hp] */
    float *q_t, *do_t;                   /* panels of tile->cols queries, [Hp / pairs, cols] */
    float *acc;                          /* [BLOCK, Hp]: o or dq */
    float *s, *dw;                       /* [BLOCK keys, BLOCK queries] */
    float *w_pairs, *w_rows, *ds_pairs,
        *ds_rows;          /* [BLOCK / pairs, BLOCK], [BLOCK, BLOCK / pairs] */
    float *m, *l, *factor; /* [BLOCK]; backward: lse, delta */
} workspace;

int64_t pl_attention_scratch(int64_t T, int64_t H)
{
    const int64_t Tp = round_up(T, BLOCK), Hp = round_up(H, PL_TILE_MOST);

    return 4 * Tp * Hp + 5 * BLOCK * Hp + 4 * BLOCK * BLOCK + 3 * BLOCK;
}

/** The next n floats. */
static float *take(float **scratch, int64_t n)
{
    float *taken = *scratch;

    *scratch += n;
    return taken;
}

static workspace divide(float *scratch, int64_t T, int64_t Hp, int pairs)
{
    const int64_t head = round_up(T, BLOCK) * Hp, block = BLOCK * Hp, square = BLOCK * BLOCK;
    workspace w = {.dk = take(&scratch, head), .dv = take(&scratch, head)};

    w.k = take(&scratch, head / pairs);
    w.v = take(&scratch, head / pairs);
    w.k_pairs = pairs == 1 ? w.k : take(&scratch, head / pairs);
    w.v_pairs = pairs == 1 ? w.v : take(&scratch, head / pairs);
    w.q = take(&scratch, block / pairs);
    w.do_ = take(&scratch, block / pairs);
    w.q_pairs = pairs == 1 ? w.q : take(&scratch, block / pairs);
    w.do_pairs = pairs == 1 ? w.do_ : take(&scratch, block / pairs);
    w.q_t = take(&scratch, block / pairs);
    w.do_t = take(&scratch, block / pairs);
    w.acc = take(&scratch, block);
    w.s = take(&scratch, square);
    w.dw = take(&scratch, square);
    w.w_rows = pairs == 1 ? w.s : take(&scratch, square / pairs);
    w.w_pairs = w.w_rows; /* forward needs these, backward those */
    w.ds_rows = pairs == 1 ? w.dw : take(&scratch, square / pairs);
    w.ds_pairs = pairs == 1 ? w.dw : take(&scratch, square / pairs);
    w.m = take(&scratch, BLOCK);
    w.l = take(&scratch, BLOCK);
    w.factor = take(&scratch, BLOCK);
    return w;
}

/** What forward and backward are called with: arrays are of dtype, but for lse. */
typedef struct {
    pl_dtype dtype;
    int64_t T, B, N, K, H;
    float scale;
    const void *q, *k, *v, *o_in, *do_;
    void *o, *dq, *dk, *dv;
    float *lse;
    const float *lse_in;
    const pl_progress *progress;
    const pl_tile *tile;
    workspace w;
    int64_t Hp, q_step, k_step; /* elements between rows of q and of k */
} call;

/** to's panels of tile->cols = rows[n, n_words] transposed. */
PL_INLINE void transpose(const pl_tile *tile, int64_t n, int64_t n_words, const float *rows,
                         float *to)
{
    for (int64_t j = 0; j < n; j += tile->cols)
        tile->transpose(n_words, tile->cols, (const char *)(rows + j * n_words), 4 * n_words,
                        to + j * n_words);
}

/** s[n keys, n queries] = scale * k[n, Hp] . q_t[Hp, n]; on the diagonal only tiles with a visible
 * pair. */
static void scores(const pl_tile *tile, int64_t n, int64_t n_words, bool diagonal, float scale,
                   const float *k, const float *q_t, float *s)
{
    for (int64_t j = 0; j < n; j += tile->cols) {
        const int64_t end = diagonal ? least(n, j + tile->cols) : BLOCK;

        for (int64_t i = 0; i < end; i += tile->rows)
            tile->product(n_words, k + i * n_words, n_words, 1, q_t + j * n_words, tile->cols,
                          scale, false, s + i * BLOCK + j, BLOCK);
    }
}

/** y[n queries, Hp] += s[keys, n]^T . x[keys, Hp]; s and x are pairs of keys. */
static void add_over_keys(const pl_tile *tile, int64_t n, int64_t Hp, bool diagonal, const float *s,
                          const float *x, float *y)
{
    for (int64_t j = 0; j < Hp; j += tile->cols)
        for (int64_t i = 0; i < n; i += tile->rows)
            tile->product((diagonal ? i + tile->rows : BLOCK) / tile->pairs, s + i, 1, BLOCK, x + j,
                          Hp, 1.0f, true, y + i * Hp + j, Hp);
}

/** y[keys, Hp] += s[keys, n] . x[n queries, Hp]; s are rows, x pairs of queries. */
static void add_over_queries(const pl_tile *tile, int64_t n, int64_t Hp, bool diagonal,
                             const float *s, const float *x, float *y)
{
    const int64_t n_keys = diagonal ? n : BLOCK, row = BLOCK / tile->pairs;

    for (int64_t j = 0; j < Hp; j += tile->cols)
        for (int64_t i = 0; i < n_keys; i += tile->rows) {
            const int64_t first =
                diagonal ? i / tile->pairs : 0; /* earlier queries see no such key */

            tile->product(n / tile->pairs - first, s + i * row + first, row, 1, x + first * Hp + j,
                          Hp, 1.0f, true, y + i * Hp + j, Hp);
        }
}

/** s[key, query] = value where key > query. */
static void mask(int64_t n, float value, float *s)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++)
            s[i * BLOCK + j] = value;
}

/** k and v of one head. */
PL_INLINE void pack_head(const pl_dtype dtype, const int pairs, const call *c, int64_t at)
{
    const int64_t T = c->T, Tp = round_up(T, BLOCK), H = c->H, Hp = c->Hp;
    const void *k = pl_from(dtype, c->k, at), *v = pl_from(dtype, c->v, at);

    pack_rows(dtype, pairs, T, Tp, H, Hp, k, c->k_step, c->w.k);
    pack_rows(dtype, pairs, T, Tp, H, Hp, v, c->k_step, c->w.v);
    if (pairs == 2) {
        pack_pairs(T, Tp, H, Hp, k, c->k_step, (uint32_t *)c->w.k_pairs);
        pack_pairs(T, Tp, H, Hp, v, c->k_step, (uint32_t *)c->w.v_pairs);
    }
}

/** o and lse of n_real queries from t0 on; `at` is where the first lies in q and o. */
PL_INLINE void forward_block(const pl_dtype dtype, const int pairs, const call *c, int64_t t0,
                             int64_t n_real, int64_t at, float *lse)
{
    const workspace *w = &c->w;
    const pl_tile *tile = c->tile;
    const int64_t Hp = c->Hp, n_words = Hp / pairs, n = round_up(n_real, tile->cols);
    float inverse[BLOCK];

    pack_rows(dtype, pairs, n_real, n, c->H, Hp, pl_from(dtype, c->q, at), c->q_step, w->q);
    transpose(tile, n, n_words, w->q, w->q_t);
    memset(w->acc, 0, (size_t)(n * Hp) * sizeof *w->acc);
    for (int j = 0; j < BLOCK; j++) {
        w->m[j] = -INFINITY;
        w->l[j] = 0.0f;
    }
    for (int64_t s0 = 0; s0 <= t0; s0 += BLOCK) {
        const bool diagonal = s0 == t0;

        scores(tile, n, n_words, diagonal, c->scale, w->k + s0 * n_words, w->q_t, w->s);
        if (diagonal)
            mask(n, -INFINITY, w->s);
        softmax(pairs, diagonal ? n : BLOCK, w->s, w->m, w->l, w->factor, (uint32_t *)w->w_pairs);
        if (s0 > 0)
            rescale(n, Hp, w->factor, w->acc);
        add_over_keys(tile, n, Hp, diagonal, w->w_pairs, w->v_pairs + s0 * n_words, w->acc);
    }
    for (int64_t i = 0; i < n_real; i++) {
        inverse[i] = 1.0f / w->l[i];
        lse[i * c->B * c->N] = w->m[i] + logf(w->l[i]);
    }
    unpack(dtype, n_real, c->H, Hp, inverse, 1.0f, w->acc, c->q_step, pl_to(dtype, c->o, at));
}

PL_INLINE void forward_body(const pl_dtype dtype, const int pairs, const call *c)
{
    const int64_t group = c->N / c->K;

    for (int64_t b = 0; b < c->B; b++)
        for (int64_t n = 0; n < c->N; n++) {
            if (n % group == 0)
                pack_head(dtype, pairs, c, (b * c->K + n / group) * c->H);
            for (int64_t t0 = 0; t0 < c->T; t0 += BLOCK)
                forward_block(dtype, pairs, c, t0, least(c->T - t0, BLOCK),
                              t0 * c->q_step + (b * c->N + n) * c->H,
                              c->lse + (t0 * c->B + b) * c->N + n);
            pl_progress_call(c->progress);
        }
}

/** q and do_ of n_real queries, as rows, transposed, and as pairs; lse and delta. */
PL_INLINE void pack_queries(const pl_dtype dtype, const int pairs, const call *c, int64_t n_real,
                            int64_t at, const float *lse)
{
    const workspace *w = &c->w;
    const int64_t Hp = c->Hp, n_words = Hp / pairs, n = round_up(n_real, c->tile->cols);
    const void *q = pl_from(dtype, c->q, at), *do_ = pl_from(dtype, c->do_, at);
    float *lse_block = w->m, *delta = w->l;

    pack_rows(dtype, pairs, n_real, n, c->H, Hp, q, c->q_step, w->q);
    pack_rows(dtype, pairs, n_real, n, c->H, Hp, do_, c->q_step, w->do_);
    if (pairs == 2) {
        pack_pairs(n_real, n, c->H, Hp, q, c->q_step, (uint32_t *)w->q_pairs);
        pack_pairs(n_real, n, c->H, Hp, do_, c->q_step, (uint32_t *)w->do_pairs);
    }
    transpose(c->tile, n, n_words, w->q, w->q_t);
    transpose(c->tile, n, n_words, w->do_, w->do_t);
    memset(delta, 0, BLOCK * sizeof *delta);
    sum_delta(dtype, n_real, c->H, pl_from(dtype, c->o_in, at), do_, c->q_step, delta);
    for (int64_t i = 0; i < BLOCK; i++)
        lse_block[i] = i < n_real ? lse[i * c->B * c->N] : 0.0f;
}

/** dq of n_real queries from t0 on, and their share of the head's dk and dv. */
PL_INLINE void backward_block(const pl_dtype dtype, const int pairs, const call *c, int64_t t0,
                              int64_t n_real, int64_t at, const float *lse)
{
    const workspace *w = &c->w;
    const pl_tile *tile = c->tile;
    const int64_t Hp = c->Hp, n_words = Hp / pairs, n = round_up(n_real, tile->cols);

    pack_queries(dtype, pairs, c, n_real, at, lse);
    memset(w->acc, 0, (size_t)(n * Hp) * sizeof *w->acc);
    for (int64_t s0 = 0; s0 <= t0; s0 += BLOCK) {
        const bool diagonal = s0 == t0;
        const int64_t n_keys = diagonal ? n : BLOCK;

        scores(tile, n, n_words, diagonal, c->scale, w->k + s0 * n_words, w->q_t, w->s);
        scores(tile, n, n_words, diagonal, 1.0f, w->v + s0 * n_words, w->do_t, w->dw);
        if (diagonal) {
            mask(n, -INFINITY, w->s);
            mask(n, 0.0f, w->dw);
        }
        if (pairs == 2)
            gradient_bf16(n_keys, w->m, w->l, w->s, w->dw, (pl_bf16 *)w->w_rows,
                          (pl_bf16 *)w->ds_rows, (uint32_t *)w->ds_pairs);
        else
            gradient_f32(n_keys, w->m, w->l, w->s, w->dw);
        add_over_queries(tile, n, Hp, diagonal, w->w_rows, w->do_pairs, w->dv + s0 * Hp);
        add_over_queries(tile, n, Hp, diagonal, w->ds_rows, w->q_pairs, w->dk + s0 * Hp);
        add_over_keys(tile, n, Hp, diagonal, w->ds_pairs, w->k_pairs + s0 * n_words, w->acc);
    }
    unpack(dtype, n_real, c->H, Hp, NULL, c->scale, w->acc, c->q_step, pl_to(dtype, c->dq, at));
}

/** One key/value head: dk, dv, and the dq of its query heads. */
PL_INLINE void backward_head(const pl_dtype dtype, const int pairs, const call *c, int64_t b,
                             int64_t kv)
{
    const int64_t group = c->N / c->K, at_k = (b * c->K + kv) * c->H;
    const size_t head_bytes = (size_t)(round_up(c->T, BLOCK) * c->Hp) * sizeof(float);

    pack_head(dtype, pairs, c, at_k);
    memset(c->w.dk, 0, head_bytes);
    memset(c->w.dv, 0, head_bytes);
    for (int64_t n = kv * group; n < (kv + 1) * group; n++) {
        for (int64_t t0 = 0; t0 < c->T; t0 += BLOCK)
            backward_block(dtype, pairs, c, t0, least(c->T - t0, BLOCK),
                           t0 * c->q_step + (b * c->N + n) * c->H,
                           c->lse_in + (t0 * c->B + b) * c->N + n);
        pl_progress_call(c->progress);
    }
    unpack(dtype, c->T, c->H, c->Hp, NULL, c->scale, c->w.dk, c->k_step, pl_to(dtype, c->dk, at_k));
    unpack(dtype, c->T, c->H, c->Hp, NULL, 1.0f, c->w.dv, c->k_step, pl_to(dtype, c->dv, at_k));
}

PL_INLINE void backward_body(const pl_dtype dtype, const int pairs, const call *c)
{
    for (int64_t b = 0; b < c->B; b++)
        for (int64_t kv = 0; kv < c->K; kv++)
            backward_head(dtype, pairs, c, b, kv);
}

static void forward_generic(const call *c)
{
    if (c->dtype == PL_BF16)
        forward_body(PL_BF16, 1, c);
    else
        forward_body(PL_F32, 1, c);
}

PL_AVX2 static void forward_avx2(const call *c)
{
    if (c->dtype == PL_BF16)
        forward_body(PL_BF16, 1, c);
    else
        forward_body(PL_F32, 1, c);
}

PL_AVX512 static void forward_avx512(const call *c)
{
    if (c->tile->pairs == 2)
        forward_body(PL_BF16, 2, c);
    else if (c->dtype == PL_BF16)
        forward_body(PL_BF16, 1, c);
    else
        forward_body(PL_F32, 1, c);
}

static void backward_generic(const call *c)
{
    if (c->dtype == PL_BF16)
        backward_body(PL_BF16, 1, c);
    else
        backward_body(PL_F32, 1, c);
}

PL_AVX2 static void backward_avx2(const call *c)
{
    if (c->dtype == PL_BF16)
        backward_body(PL_BF16, 1, c);
    else
        backward_body(PL_F32, 1, c);
}

PL_AVX512 static void backward_avx512(const call *c)
{
    if (c->tile->pairs == 2)
        backward_body(PL_BF16, 2, c);
    else if (c->dtype == PL_BF16)
        backward_body(PL_BF16, 1, c);
    else
        backward_body(PL_F32, 1, c);
}

/* Pairs (key, query) that scores(), add_over_keys() and add_over_queries() multiply in a block of n
 * queries, off the diagonal and on it. */
typedef struct {
    int64_t scores, keys, queries;
} block_pairs;

static block_pairs pairs_of_block(const pl_tile *tile, int64_t n, bool diagonal)
{
    block_pairs pairs = {n * BLOCK, n * BLOCK, n * BLOCK};

    if (!diagonal)
        return pairs;
    pairs = (block_pairs){0};
    for (int64_t j = 0; j < n; j += tile->cols)
        pairs.scores += tile->cols * least(n, j + tile->cols);
    for (int64_t i = 0; i < n; i += tile->rows) {
        pairs.keys += tile->rows * (i + tile->rows);
        pairs.queries += tile->rows * (n - i);
    }
    return pairs;
}

pl_attention_work pl_attention_count(pl_dtype dtype, int64_t T, int64_t H)
{
    const pl_tile *tile = pl_tile_get(dtype);
    pl_attention_work work = {.padded_head = round_up(H, tile->cols)};

    for (int64_t t0 = 0; t0 < T; t0 += BLOCK) {
        const int64_t n = round_up(least(T - t0, BLOCK), tile->cols), n_before = t0 / BLOCK;
        const block_pairs full = pairs_of_block(tile, n, false),
                          last = pairs_of_block(tile, n, true);
        const double scores = (double)(n_before * full.scores + last.scores);
        const double keys = (double)(n_before * full.keys + last.keys);
        const double queries = (double)(n_before * full.queries + last.queries);
        const double flops = 2.0 * (double)work.padded_head;

        work.forward_flops += flops * (scores + keys);
        work.backward_flops += flops * (2 * scores + keys + 2 * queries);
        work.weights += (double)(BLOCK * (n_before * BLOCK + n));
    }
    return work;
}

/** Completes the call. */
static void prepare(call *c, float *scratch)
{
    c->tile = pl_tile_get(c->dtype);
    c->Hp = round_up(c->H, c->tile->cols);
    c->q_step = c->B * c->N * c->H;
    c->k_step = c->B * c->K * c->H;
    c->w = divide(scratch, c->T, c->Hp, (int)c->tile->pairs);
}

static void forward(call c, float *scratch)
{
    static void (*const run[PL_N_ISA])(const call *) = {forward_generic, forward_avx2,
                                                        forward_avx512};

    if (c.T == 0 || c.B == 0 || c.N == 0 || c.H == 0)
        return;
    PL_ASSERT(c.K > 0 && c.N % c.K == 0);
    prepare(&c, scratch);
    run[pl_isa_vectors()](&c);
}

static void backward(call c, float *scratch)
{
    static void (*const run[PL_N_ISA])(const call *) = {backward_generic, backward_avx2,
                                                        backward_avx512};

    if (c.T == 0 || c.B == 0 || c.K == 0 || c.H == 0)
        return;
    PL_ASSERT(c.N % c.K == 0);
    prepare(&c, scratch);
    run[pl_isa_vectors()](&c);
}

void pl_attention_forward(int64_t T, int64_t B, int64_t N, int64_t K, int64_t H, float scale,
                          const float *q, const float *k, const float *v, float *o, float *lse,
                          float *scratch, const pl_progress *progress)
{
    forward((call){PL_F32, T, B, N, K, H, scale, q, k, v, .o = o, .lse = lse, .progress = progress},
            scratch);
}

void pl_attention_forward_bf16(int64_t T, int64_t B, int64_t N, int64_t K, int64_t H, float scale,
                               const pl_bf16 *q, const pl_bf16 *k, const pl_bf16 *v, pl_bf16 *o,
                               float *lse, float *scratch, const pl_progress *progress)
{
    forward(
        (call){PL_BF16, T, B, N, K, H, scale, q, k, v, .o = o, .lse = lse, .progress = progress},
        scratch);
}

void pl_attention_backward(int64_t T, int64_t B, int64_t N, int64_t K, int64_t H, float scale,
                           const float *q, const float *k, const float *v, const float *o,
                           const float *do_, const float *lse, float *dq, float *dk, float *dv,
                           float *scratch, const pl_progress *progress)
{
    backward((call){PL_F32, T, B, N, K, H, scale, q, k, v, o, do_, .dq = dq, .dk = dk, .dv = dv,
                    .lse_in = lse, .progress = progress},
             scratch);
}

void pl_attention_backward_bf16(int64_t T, int64_t B, int64_t N, int64_t K, int64_t H, float scale,
                                const pl_bf16 *q, const pl_bf16 *k, const pl_bf16 *v,
                                const pl_bf16 *o, const pl_bf16 *do_, const float *lse, pl_bf16 *dq,
                                pl_bf16 *dk, pl_bf16 *dv, float *scratch,
                                const pl_progress *progress)
{
    backward((call){PL_BF16, T, B, N, K, H, scale, q, k, v, o, do_, .dq = dq, .dk = dk, .dv = dv,
                    .lse_in = lse, .progress = progress},
             scratch);
}
