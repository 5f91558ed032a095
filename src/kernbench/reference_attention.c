/* Attention's references: some queries, and some keys, of each head. */
#include "config.h"

#include "src/base/memory.h"
#include "src/kernbench/reference.h"

#include <math.h>

enum { ROWS_A_HEAD = 24, BLOCK = 64, EXP_ROUNDINGS = 4 };

/* Sizes, and where a head's rows begin. */
typedef struct {
    int64_t T, B, N, K, H;
    double scale;
} sizes;

static sizes sizes_of(const pl_verdict *v)
{
    const pl_extents *q = &v->in[0].extents;

    return (sizes){.T = q->n[0],
                   .B = q->n[1],
                   .N = q->n[2],
                   .K = v->in[1].extents.n[2],
                   .H = q->n[3],
                   .scale = 1 / sqrt((double)q->n[3])};
}

static int64_t query_at(const sizes *z, int64_t t, int64_t b, int64_t n)
{
    return ((t * z->B + b) * z->N + n) * z->H;
}

static int64_t key_at(const sizes *z, int64_t s, int64_t b, int64_t n)
{
    return ((s * z->B + b) * z->K + n * z->K / z->N) * z->H;
}

/* The sum over H of x[i + h] y[k + h], and of its terms' sizes. */
static double dot(const sizes *z, const pl_array *x, int64_t i, const pl_array *y, int64_t k,
                  double *size)
{
    double sum = 0;

    *size = 0;
    for (int64_t h = 0; h < z->H; h++) {
        const double term = pl_array_element(x, i + h) * pl_array_element(y, k + h);

        sum += term;
        *size += fabs(term);
    }
    return sum;
}

/* From row to row, so that about ROWS_A_HEAD of T are compared, the last and some ends of blocks
 * among them. */
static int64_t stride(int64_t T)
{
    return T <= ROWS_A_HEAD ? 1 : (T / ROWS_A_HEAD) | 1;
}

/* What a factor of a product of bf16 pairs was rounded by, weights, scaled queries, ds: nothing
 * where they stay f32. */
static double pair_rounding(const pl_verdict *v)
{
    return v->c->dtype == PL_BF16 ? 0x1p-8 * (1 + 0x1p-7) : 0;
}

/* ---- forward */

/* A query's row. Scores are off by e = (H + 3) u max |scale q . k|, whose weights' ratios by 2 e;
 * exponentials and the factors between tiles add to that. */
static void compare_query(pl_verdict *v, const sizes *z, int64_t t, int64_t b, int64_t n,
                          double *score)
{
    const int64_t q = query_at(z, t, b, n);
    double most = -INFINITY, most_size = 0, sum = 0, size;

    for (int64_t s = 0; s <= t; s++) {
        score[s] = z->scale * dot(z, &v->in[0], q, &v->in[1], key_at(z, s, b, n), &size);
        most = fmax(most, score[s]);
        most_size = fmax(most_size, z->scale * size);
    }
    for (int64_t s = 0; s <= t; s++)
        sum += exp(score[s] - most);
    const double e =
        (pl_gamma((double)z->H + 3) + pair_rounding(v)) * most_size + pl_gamma(2) * fabs(most);
    const double tiles = (double)((t + BLOCK) / BLOCK);
    const double relative =
        2 * e + pl_gamma(tiles * (EXP_ROUNDINGS + 3) + BLOCK + 16) + pair_rounding(v);

    for (int64_t h = 0; h < z->H; h++) {
        double o = 0, o_size = 0;

        for (int64_t s = 0; s <= t; s++) {
            const double term =
                exp(score[s] - most) / sum * pl_array_element(&v->in[2], key_at(z, s, b, n) + h);
            o += term;
            o_size += fabs(term);
        }
        pl_expect(v, 0, q + h, o, relative * o_size);
    }
    const double lse = most + log(sum);
    pl_expect(v, 1, q / z->H, lse, relative + pl_gamma(4) * (fabs(most) + fabs(log(sum))));
}

void pl_reference_attention(pl_verdict *v)
{
    const sizes z = sizes_of(v);
    double *score = pl_alloc((size_t)z.T * sizeof *score);

    for (int64_t b = 0; b < z.B; b++)
        for (int64_t n = 0; n < z.N; n++)
            for (int64_t t = z.T - 1; t >= 0; t -= stride(z.T))
                compare_query(v, &z, t, b, n, score);
    pl_free(score);
}

/* ---- backward: w = exp(s - lse); ds = w (do . v - delta); delta = o . do */

typedef struct {
    double w, w_error, ds, ds_error;
} pair;

/* Query t meets key s. */
static pair meet(const pl_verdict *v, const sizes *z, int64_t t, int64_t s, int64_t b, int64_t n)
{
    const int64_t q = query_at(z, t, b, n), k = key_at(z, s, b, n);
    const double lse = pl_array_element(&v->in[5], q / z->H), n_dot = (double)z->H + 3;
    double size, dw_size, delta_size;
    pair p;

    const double score = z->scale * dot(z, &v->in[0], q, &v->in[1], k, &size);
    const double dw = dot(z, &v->in[4], q, &v->in[2], k, &dw_size);
    const double delta = dot(z, &v->in[3], q, &v->in[4], q, &delta_size);
    p.w = exp(score - lse);
    p.w_error =
        p.w * ((pl_gamma(n_dot) + pair_rounding(v)) * z->scale * size +
               pl_gamma(2) * fabs(score - lse) + pl_gamma(EXP_ROUNDINGS + 1) + pair_rounding(v));
    p.ds = p.w * (dw - delta);
    p.ds_error = p.w * pl_gamma(n_dot) * (dw_size + delta_size) + p.w_error * fabs(dw - delta) +
                 (pl_gamma(2) + 2 * pair_rounding(v)) * fabs(p.ds);
    return p;
}

static void compare_dq(pl_verdict *v, const sizes *z, int64_t t, int64_t b, int64_t n, double *sum,
                       double *error)
{
    const int64_t q = query_at(z, t, b, n);

    for (int64_t h = 0; h < z->H; h++)
        sum[h] = error[h] = 0;
    for (int64_t s = 0; s <= t; s++) {
        const pair p = meet(v, z, t, s, b, n);

        for (int64_t h = 0; h < z->H; h++) {
            const double k = pl_array_element(&v->in[1], key_at(z, s, b, n) + h);

            sum[h] += z->scale * p.ds * k;
            error[h] += z->scale * (p.ds_error + pl_gamma((double)t + 4) * fabs(p.ds)) * fabs(k);
        }
    }
    for (int64_t h = 0; h < z->H; h++)
        pl_expect(v, 0, q + h, sum[h], error[h]);
}

/* dk and dv of key s, summed over the query heads of group kv. */
static void compare_key(pl_verdict *v, const sizes *z, int64_t s, int64_t b, int64_t kv,
                        double *sum, double *error)
{
    const int64_t group = z->N / z->K, H = z->H;
    const double n_terms = (double)((z->T - s) * group) + 4;

    for (int64_t h = 0; h < 2 * H; h++)
        sum[h] = error[h] = 0;
    for (int64_t n = kv * group; n < (kv + 1) * group; n++)
        for (int64_t t = s; t < z->T; t++) {
            const pair p = meet(v, z, t, s, b, n);
            const int64_t at = query_at(z, t, b, n);

            for (int64_t h = 0; h < H; h++) {
                const double q = z->scale * pl_array_element(&v->in[0], at + h);
                const double d_o = pl_array_element(&v->in[4], at + h);

                sum[h] += p.ds * q;
                error[h] += (p.ds_error + pl_gamma(n_terms) * fabs(p.ds)) * fabs(q);
                sum[H + h] += p.w * d_o;
                error[H + h] += (p.w_error + pl_gamma(n_terms) * p.w) * fabs(d_o);
            }
        }
    for (int64_t h = 0; h < H; h++) {
        pl_expect(v, 1, key_at(z, s, b, kv * group) + h, sum[h], error[h]);
        pl_expect(v, 2, key_at(z, s, b, kv * group) + h, sum[H + h], error[H + h]);
    }
}

void pl_reference_attention_backward(pl_verdict *v)
{
    const sizes z = sizes_of(v);
    double *sum = pl_alloc(2 * (size_t)z.H * sizeof *sum);
    double *error = pl_alloc(2 * (size_t)z.H * sizeof *error);

    for (int64_t b = 0; b < z.B; b++)
        for (int64_t t = z.T - 1; t >= 0; t -= stride(z.T)) {
            for (int64_t n = 0; n < z.N; n++)
                compare_dq(v, &z, t, b, n, sum, error);
            for (int64_t kv = 0; kv < z.K; kv++)
                compare_key(v, &z, z.T - 1 - t, b, kv, sum, error);
        }
    pl_free(sum);
    pl_free(error);
}
