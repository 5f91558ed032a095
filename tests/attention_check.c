#include "config.h"

#include "tests/attention_check.h"

#include "kernels/attention.h"
#include "src/base/dtype.h"

static void round_to_bf16(int64_t n, float *x)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = pl_bf16_to_f32(pl_bf16_of_f32(x[i]));
}

attention_arrays attention_create(attention_shape z, pl_dtype dtype)
{
    const int64_t n_q = z.T * z.B * z.N * z.H, n_k = z.T * z.B * z.K * z.H;
    attention_arrays a = {.z = z, .scale = (float)(1.0 / sqrt((double)z.H))};

    a.unit = dtype == PL_BF16 ? 0x1p-8 : 0.0;
    a.least = dtype == PL_BF16 ? 0x1p-125 : LEAST;
    a.q = floats(n_q, 1, -z.spread, z.spread);
    a.k = floats(n_k, 2, -z.spread, z.spread);
    a.v = inputs(z.of_v, n_k, z.H, 3, 1e30);
    a.do_ = inputs(z.of_do, n_q, z.H, 4, 1e30);
    if (dtype == PL_BF16) {
        round_to_bf16(n_q, a.q);
        round_to_bf16(n_k, a.k);
        round_to_bf16(n_k, a.v);
        round_to_bf16(n_q, a.do_);
    }
    a.o = sentinels(n_q);
    a.lse = sentinels(z.T * z.B * z.N);
    a.dq = sentinels(n_q);
    a.dk = sentinels(n_k);
    a.dv = sentinels(n_k);
    a.scratch = sentinels(pl_attention_scratch(z.T, z.H));
    return a;
}

void attention_destroy(attention_arrays *a)
{
    float *all[] = {a->q, a->k, a->v, a->do_, a->o, a->lse, a->dq, a->dk, a->dv, a->scratch};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        pl_free(all[i]);
}

int64_t at_q(const attention_shape *z, int64_t t, int64_t b, int64_t n)
{
    return ((t * z->B + b) * z->N + n) * z->H;
}

int64_t at_k(const attention_shape *z, int64_t t, int64_t b, int64_t n)
{
    return ((t * z->B + b) * z->K + n * z->K / z->N) * z->H;
}

static double dot(const float *x, const float *y, int64_t n, double *sum_abs)
{
    double sum = 0.0;

    *sum_abs = 0.0;
    for (int64_t i = 0; i < n; i++) {
        sum += (double)x[i] * (double)y[i];
        *sum_abs += fabs((double)x[i] * (double)y[i]);
    }
    return sum;
}

void attention_weigh(const attention_arrays *a, int64_t t, int64_t b, int64_t n, attention_row *r)
{
    const attention_shape *z = &a->z;
    const double n_tiles = (double)(t / 64 + 1);
    double most = -INFINITY, least = INFINITY, sum = 0.0, s_error = 0.0;

    for (int64_t s = 0; s <= t; s++) {
        double sum_abs;

        r->w[s] = (double)a->scale *
                  dot(a->q + at_q(z, t, b, n), a->k + at_k(z, s, b, n), z->H, &sum_abs);
        s_error = fmax(s_error, gamma_n((double)z->H + 2) * (double)a->scale * sum_abs);
        most = fmax(most, r->w[s]);
        least = fmin(least, r->w[s]);
    }
    for (int64_t s = 0; s <= t; s++)
        sum += r->w[s] = exp(r->w[s] - most);
    for (int64_t s = 0; s <= t; s++)
        r->w[s] /= sum;
    r->lse = most + log(sum);
    /* exp(s - m): the score's error, the subtraction's rounding, exp's; once more for each tile
     * that rescales; then the sum itself: 64 terms, tiles */
    r->w_error =
        2 * s_error + n_tiles * (most - least + EXP_UNITS + 2) * UNIT + gamma_n(64 + 2 * n_tiles);
    r->lse_error = s_error + r->w_error + 3 * UNIT * (fabs(most) + fabs(log(sum)) + 1);
}

/** The bf16 of x[n], with a sentinel behind. */
static pl_bf16 *narrowed(int64_t n, const float *x)
{
    pl_bf16 *y = pl_alloc((size_t)(n + 1) * sizeof *y);

    for (int64_t i = 0; i < n; i++)
        y[i] = pl_bf16_of_f32(x[i]);
    y[n] = 0x4641;
    return y;
}

/** x[n] = what the kernel left in y, which is freed. */
static void widen(int64_t n, pl_bf16 *y, float *x)
{
    ck_assert_int_eq(y[n], 0x4641);
    for (int64_t i = 0; i < n; i++)
        x[i] = pl_bf16_to_f32(y[i]);
    pl_free(y);
}

static void forward_bf16(attention_arrays *a)
{
    const attention_shape *z = &a->z;
    const int64_t n_q = z->T * z->B * z->N * z->H, n_k = z->T * z->B * z->K * z->H;
    pl_bf16 *q = narrowed(n_q, a->q), *k = narrowed(n_k, a->k), *v = narrowed(n_k, a->v);
    pl_bf16 *o = narrowed(n_q, a->o);

    pl_attention_forward_bf16(z->T, z->B, z->N, z->K, z->H, a->scale, q, k, v, o, a->lse,
                              a->scratch, NULL);
    widen(n_q, q, a->q);
    widen(n_k, k, a->k);
    widen(n_k, v, a->v);
    widen(n_q, o, a->o);
}

void attention_forward(attention_arrays *a)
{
    const attention_shape *z = &a->z;

    if (a->unit > 0.0)
        forward_bf16(a);
    else
        pl_attention_forward(z->T, z->B, z->N, z->K, z->H, a->scale, a->q, a->k, a->v, a->o, a->lse,
                             a->scratch, NULL);
}

static void backward_bf16(attention_arrays *a)
{
    const attention_shape *z = &a->z;
    const int64_t n_q = z->T * z->B * z->N * z->H, n_k = z->T * z->B * z->K * z->H;
    pl_bf16 *q = narrowed(n_q, a->q), *k = narrowed(n_k, a->k), *v = narrowed(n_k, a->v);
    pl_bf16 *o = narrowed(n_q, a->o), *do_ = narrowed(n_q, a->do_), *dq = narrowed(n_q, a->dq);
    pl_bf16 *dk = narrowed(n_k, a->dk), *dv = narrowed(n_k, a->dv);

    pl_attention_backward_bf16(z->T, z->B, z->N, z->K, z->H, a->scale, q, k, v, o, do_, a->lse, dq,
                               dk, dv, a->scratch, NULL);
    widen(n_q, q, a->q);
    widen(n_k, k, a->k);
    widen(n_k, v, a->v);
    widen(n_q, o, a->o);
    widen(n_q, do_, a->do_);
    widen(n_q, dq, a->dq);
    widen(n_k, dk, a->dk);
    widen(n_k, dv, a->dv);
}

void attention_backward(attention_arrays *a)
{
    const attention_shape *z = &a->z;

    if (a->unit > 0.0)
        backward_bf16(a);
    else
        pl_attention_backward(z->T, z->B, z->N, z->K, z->H, a->scale, a->q, a->k, a->v, a->o,
                              a->do_, a->lse, a->dq, a->dk, a->dv, a->scratch, NULL);
}

/** What bf16 products lose of x * y where they take denormals for 0. */
static double flushed(const attention_arrays *a, double x, double y)
{
    return a->unit > 0.0 && (fabs(x) < 0x1p-126 || fabs(y) < 0x1p-126) ? fabs(x * y) : 0.0;
}

/** What element h of o may lose, beside relative errors: weights below e^-87 < 2^-125 are 0. */
static double lost_of_o(const attention_arrays *a, int64_t t, int64_t b, int64_t n, int64_t h,
                        const attention_row *r)
{
    double lost = (double)(t + 3) * a->least;

    for (int64_t s = 0; s <= t; s++) {
        const double v = (double)a->v[at_k(&a->z, s, b, n) + h];

        lost += 0x1p-125 * fabs(v) + flushed(a, r->w[s], v);
    }
    return lost;
}

double attention_rounding(const attention_arrays *a, double want, double bound)
{
    return bound + a->unit * (fabs(want) + bound) + (a->unit > 0.0 ? 0x1p-134 : 0.0);
}

void attention_judge_forward(const attention_arrays *a, int64_t t, int64_t b, int64_t n,
                             const attention_row *r, verdict *of_o, verdict *of_lse)
{
    const attention_shape *z = &a->z;

    for (int64_t h = 0; h < z->H; h++) {
        double o = 0.0, sum_abs = 0.0;

        for (int64_t s = 0; s <= t; s++) {
            const double term = r->w[s] * (double)a->v[at_k(z, s, b, n) + h];

            o += term;
            sum_abs += fabs(term);
        }
        /* bf16: every weight is rounded, then the sum */
        judge(of_o, (double)a->o[at_q(z, t, b, n) + h], o,
              (2 * r->w_error + 2 * a->unit + a->unit * a->unit) * sum_abs +
                  attention_rounding(a, 0.0, lost_of_o(a, t, b, n, h, r)));
    }
    judge(of_lse, (double)a->lse[(t * z->B + b) * z->N + n], r->lse, r->lse_error);
}

static void add_pair(const attention_arrays *a, int64_t t, int64_t s, int64_t b, int64_t n,
                     const attention_row *r, double delta, double delta_error, attention_sums *g)
{
    const attention_shape *z = &a->z;
    const int64_t q = at_q(z, t, b, n), k = at_k(z, s, b, n);
    /* a chain over the keys or queries of a tile, then over tiles and heads of the group */
    const double n_chain = 64.0 + (double)((z->T / 64 + 1) * (z->N / z->K)) + 4;
    double abs_dp, dp_lost = (double)(z->H + 2) * a->least;
    const double dp = dot(a->do_ + q, a->v + k, z->H, &abs_dp);
    const double scale = (double)a->scale, w = r->w[s], ds = w * (dp - delta);
    const double exponent = fmin(87.0, -log(w + 1e-300)); /* weights below e^-87 are 0 */
    const double w_error =
        w * (r->w_error + r->lse_error + (exponent + EXP_UNITS + 2) * UNIT) + 0x1p-125;

    for (int64_t h = 0; h < z->H; h++)
        dp_lost += flushed(a, (double)a->do_[q + h], (double)a->v[k + h]);
    const double ds_error = w * (gamma_n((double)z->H + 1) * abs_dp + dp_lost + delta_error) +
                            w_error * (fabs(dp - delta) + dp_lost) +
                            (4 * UNIT + a->unit) * w * (fabs(dp) + fabs(delta)) + a->least;

    for (int64_t h = 0; h < z->H; h++) {
        const double q_h = (double)a->q[q + h], k_h = (double)a->k[k + h];
        const double do_h = (double)a->do_[q + h];

        g->dq[q + h] += scale * ds * k_h;
        g->dk[k + h] += scale * ds * q_h;
        g->dv[k + h] += w * do_h;
        g->dq_bound[q + h] += scale * ((ds_error + gamma_n(n_chain) * fabs(ds)) * fabs(k_h) +
                                       flushed(a, ds, k_h) + a->least);
        g->dk_bound[k + h] += scale * ((ds_error + gamma_n(n_chain) * fabs(ds)) * fabs(q_h) +
                                       flushed(a, ds, q_h) + a->least);
        g->dv_bound[k + h] += (w_error + (gamma_n(n_chain) + a->unit) * w) * fabs(do_h) +
                              flushed(a, w, do_h) + a->least;
    }
}

attention_sums attention_gradients(const attention_arrays *a)
{
    const attention_shape *z = &a->z;
    const size_t n_q = (size_t)(z->T * z->B * z->N * z->H) * sizeof(double);
    const size_t n_k = (size_t)(z->T * z->B * z->K * z->H) * sizeof(double);
    attention_sums g = {pl_alloc(n_q), pl_alloc(n_k), pl_alloc(n_k),
                        pl_alloc(n_q), pl_alloc(n_k), pl_alloc(n_k)};
    attention_row r = {.w = pl_alloc((size_t)z->T * sizeof(double))};

    for (int64_t t = 0; t < z->T; t++)
        for (int64_t b = 0; b < z->B; b++)
            for (int64_t n = 0; n < z->N; n++) {
                double delta = 0.0, sum_abs = 0.0, delta_lost = 0.0;

                attention_weigh(a, t, b, n, &r);
                for (int64_t s = 0; s <= t; s++) {
                    double abs_dp;

                    delta += r.w[s] *
                             dot(a->do_ + at_q(z, t, b, n), a->v + at_k(z, s, b, n), z->H, &abs_dp);
                    sum_abs += r.w[s] * abs_dp;
                }
                for (int64_t h = 0; h < z->H; h++)
                    delta_lost += fabs((double)a->do_[at_q(z, t, b, n) + h]) *
                                      attention_rounding(a, 0.0, lost_of_o(a, t, b, n, h, &r)) +
                                  LEAST;
                /* delta = o . do: o's error, then H products */
                const double delta_error = (2 * r.w_error + 2 * a->unit + a->unit * a->unit +
                                            gamma_n((double)z->H / 16 + 6)) *
                                               sum_abs +
                                           delta_lost;

                for (int64_t s = 0; s <= t; s++)
                    add_pair(a, t, s, b, n, &r, delta, delta_error, &g);
            }
    pl_free(r.w);
    return g;
}

void attention_gradients_destroy(attention_sums *g)
{
    double *all[] = {g->dq, g->dk, g->dv, g->dq_bound, g->dk_bound, g->dv_bound};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        pl_free(all[i]);
}
