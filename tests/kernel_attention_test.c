/* Attention against f64 written out plainly, with bounds carried through every step. */
#include "config.h"

#include "kernels/attention.h"
#include "src/base/dtype.h"

#include "tests/check_main.h"
#include "tests/kernel_check.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    int64_t T, B, N, K, H;
    double spread; /* of q and k: large values make the softmax one hot */
} shape;

static const shape shapes[] = {
    {1, 1, 1, 1, 2, 1.0},     {63, 2, 8, 4, 18, 1.0},  {64, 1, 2, 1, 64, 1.0},
    {65, 1, 2, 2, 8, 1.0},    {130, 2, 3, 1, 16, 1.0}, {7, 3, 4, 2, 72, 1.0},
    {200, 1, 2, 1, 10, 30.0}, {129, 1, 2, 2, 33, 0.0}, {257, 1, 1, 1, 64, 3.0},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

/** Values are f32 whatever the kernel's type; those of bf16 are exact in it. */
typedef struct {
    shape z;
    float scale;
    double unit; /* unit roundoff of bf16 where that is the kernel's type, else 0 */
    float *q, *k, *v, *do_, *o, *lse, *dq, *dk, *dv, *scratch;
} arrays;

static void round_to_bf16(int64_t n, float *x)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = pl_bf16_to_f32(pl_bf16_of_f32(x[i]));
}

static arrays arrays_create(shape z, pl_dtype dtype)
{
    const int64_t n_q = z.T * z.B * z.N * z.H, n_k = z.T * z.B * z.K * z.H;
    arrays a = {.z = z, .scale = (float)(1.0 / sqrt((double)z.H))};

    a.unit = dtype == PL_BF16 ? 0x1p-8 : 0.0;

    a.q = floats(n_q, 1, -z.spread, z.spread);
    a.k = floats(n_k, 2, -z.spread, z.spread);
    a.v = floats(n_k, 3, -1.0, 1.0);
    a.do_ = floats(n_q, 4, -1.0, 1.0);
    for (int i = 0; i < 4 && dtype == PL_BF16; i++)
        round_to_bf16(i == 0 || i == 3 ? n_q : n_k, i == 0   ? a.q
                                                    : i == 1 ? a.k
                                                    : i == 2 ? a.v
                                                             : a.do_);
    a.o = sentinels(n_q);
    a.lse = sentinels(z.T * z.B * z.N);
    a.dq = sentinels(n_q);
    a.dk = sentinels(n_k);
    a.dv = sentinels(n_k);
    a.scratch = sentinels(pl_attention_scratch(z.T, z.H));
    return a;
}

static void arrays_destroy(arrays *a)
{
    float *all[] = {a->q, a->k, a->v, a->do_, a->o, a->lse, a->dq, a->dk, a->dv, a->scratch};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        pl_free(all[i]);
}

static int64_t at_q(const shape *z, int64_t t, int64_t b, int64_t n)
{
    return ((t * z->B + b) * z->N + n) * z->H;
}

static int64_t at_k(const shape *z, int64_t t, int64_t b, int64_t n)
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

/** Query t of head (b, n): its weights w[T], lse, and how far off (relatively) f32 weights may be.
 */
typedef struct {
    double lse, w_error, lse_error;
    double *w;
} row;

static void row_weigh(const arrays *a, int64_t t, int64_t b, int64_t n, row *r)
{
    const shape *z = &a->z;
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

static void forward_bf16(arrays *a)
{
    const shape *z = &a->z;
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

static void forward(arrays *a)
{
    const shape *z = &a->z;

    if (a->unit > 0.0)
        forward_bf16(a);
    else
        pl_attention_forward(z->T, z->B, z->N, z->K, z->H, a->scale, a->q, a->k, a->v, a->o, a->lse,
                             a->scratch, NULL);
}

static void backward_bf16(arrays *a)
{
    const shape *z = &a->z;
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

static void backward(arrays *a)
{
    const shape *z = &a->z;

    if (a->unit > 0.0)
        backward_bf16(a);
    else
        pl_attention_backward(z->T, z->B, z->N, z->K, z->H, a->scale, a->q, a->k, a->v, a->o,
                              a->do_, a->lse, a->dq, a->dk, a->dv, a->scratch, NULL);
}

static void judge_forward(const arrays *a, int64_t t, int64_t b, int64_t n, const row *r,
                          verdict *of_o, verdict *of_lse)
{
    const shape *z = &a->z;

    for (int64_t h = 0; h < z->H; h++) {
        double o = 0.0, sum_abs = 0.0;

        for (int64_t s = 0; s <= t; s++) {
            const double term = r->w[s] * (double)a->v[at_k(z, s, b, n) + h];

            o += term;
            sum_abs += fabs(term);
        }
        /* bf16: every weight is rounded, then the sum; weights below 2^-126 are zeros */
        judge(of_o, (double)a->o[at_q(z, t, b, n) + h], o,
              (2 * r->w_error + 2 * a->unit + a->unit * a->unit) * sum_abs + a->unit * 0x1p-110);
    }
    judge(of_lse, (double)a->lse[(t * z->B + b) * z->N + n], r->lse, r->lse_error);
}

START_TEST(forward_agrees_with_f64_within_its_bound)
{
    if (!use_isa(_i / 2 / N_SHAPES))
        ck_skip("this CPU lacks the ISA");
    arrays a = arrays_create(shapes[_i / 2 % N_SHAPES], _i % 2 ? PL_BF16 : PL_F32);
    verdict of_o = {0}, of_lse = {0};
    row r = {.w = pl_alloc((size_t)a.z.T * sizeof(double))};

    forward(&a);
    for (int64_t t = 0; t < a.z.T; t++)
        for (int64_t b = 0; b < a.z.B; b++)
            for (int64_t n = 0; n < a.z.N; n++) {
                row_weigh(&a, t, b, n, &r);
                judge_forward(&a, t, b, n, &r, &of_o, &of_lse);
            }
    ck_assert_int_eq(of_o.n_wrong, 0);
    ck_assert_int_eq(of_lse.n_wrong, 0);
    ck_assert(a.o[a.z.T * a.z.B * a.z.N * a.z.H] == SENTINEL); /* bf16: widen looks */
    ck_assert(a.lse[a.z.T * a.z.B * a.z.N] == SENTINEL);
    ck_assert(a.scratch[pl_attention_scratch(a.z.T, a.z.H)] == SENTINEL);
    pl_free(r.w);
    arrays_destroy(&a);
}
END_TEST

/** f64 gradients and the bounds of their f32 errors. */
typedef struct {
    double *dq, *dk, *dv, *dq_bound, *dk_bound, *dv_bound;
} gradients;

static void add_pair(const arrays *a, int64_t t, int64_t s, int64_t b, int64_t n, const row *r,
                     double delta, double delta_error, gradients *g)
{
    const shape *z = &a->z;
    const int64_t q = at_q(z, t, b, n), k = at_k(z, s, b, n);
    /* a chain over the keys or queries of a tile, then over tiles and heads of the group */
    const double n_chain = 64.0 + (double)((z->T / 64 + 1) * (z->N / z->K)) + 4;
    double abs_dp;
    const double dp = dot(a->do_ + q, a->v + k, z->H, &abs_dp);
    const double scale = (double)a->scale, w = r->w[s], ds = w * (dp - delta);
    const double exponent = fmin(87.0, -log(w + 1e-300)); /* weights below e^-87 are 0 */
    const double w_error =
        w * (r->w_error + r->lse_error + (exponent + EXP_UNITS + 2) * UNIT) + 0x1p-125;
    const double ds_error = w * (gamma_n((double)z->H + 1) * abs_dp + delta_error) +
                            w_error * fabs(dp - delta) +
                            (4 * UNIT + a->unit) * w * (fabs(dp) + fabs(delta));

    for (int64_t h = 0; h < z->H; h++) {
        const double q_h = (double)a->q[q + h], k_h = (double)a->k[k + h];
        const double do_h = (double)a->do_[q + h];

        g->dq[q + h] += scale * ds * k_h;
        g->dk[k + h] += scale * ds * q_h;
        g->dv[k + h] += w * do_h;
        g->dq_bound[q + h] += scale * (ds_error + gamma_n(n_chain) * fabs(ds)) * fabs(k_h);
        g->dk_bound[k + h] += scale * (ds_error + gamma_n(n_chain) * fabs(ds)) * fabs(q_h);
        g->dv_bound[k + h] += (w_error + (gamma_n(n_chain) + a->unit) * w) * fabs(do_h);
    }
}

static gradients gradients_create(const arrays *a)
{
    const shape *z = &a->z;
    const size_t n_q = (size_t)(z->T * z->B * z->N * z->H) * sizeof(double);
    const size_t n_k = (size_t)(z->T * z->B * z->K * z->H) * sizeof(double);
    gradients g = {pl_alloc(n_q), pl_alloc(n_k), pl_alloc(n_k),
                   pl_alloc(n_q), pl_alloc(n_k), pl_alloc(n_k)};
    row r = {.w = pl_alloc((size_t)z->T * sizeof(double))};

    for (int64_t t = 0; t < z->T; t++)
        for (int64_t b = 0; b < z->B; b++)
            for (int64_t n = 0; n < z->N; n++) {
                double delta = 0.0, sum_abs = 0.0;

                row_weigh(a, t, b, n, &r);
                for (int64_t s = 0; s <= t; s++) {
                    double abs_dp;

                    delta += r.w[s] *
                             dot(a->do_ + at_q(z, t, b, n), a->v + at_k(z, s, b, n), z->H, &abs_dp);
                    sum_abs += r.w[s] * abs_dp;
                }
                /* delta = o . do: o's error, then H products */
                const double delta_error = (2 * r.w_error + 2 * a->unit + a->unit * a->unit +
                                            gamma_n((double)z->H / 16 + 6)) *
                                           sum_abs;

                for (int64_t s = 0; s <= t; s++)
                    add_pair(a, t, s, b, n, &r, delta, delta_error, &g);
            }
    pl_free(r.w);
    return g;
}

static void gradients_destroy(gradients *g)
{
    double *all[] = {g->dq, g->dk, g->dv, g->dq_bound, g->dk_bound, g->dv_bound};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        pl_free(all[i]);
}

/** bound + the rounding of a result of that error. */
static double rounded(const arrays *a, double want, double bound)
{
    return bound + a->unit * (fabs(want) + bound);
}

START_TEST(backward_agrees_with_f64_within_its_bound)
{
    if (!use_isa(_i / 2 / N_SHAPES))
        ck_skip("this CPU lacks the ISA");
    arrays a = arrays_create(shapes[_i / 2 % N_SHAPES], _i % 2 ? PL_BF16 : PL_F32);
    const int64_t n_q = a.z.T * a.z.B * a.z.N * a.z.H, n_k = a.z.T * a.z.B * a.z.K * a.z.H;
    gradients g = gradients_create(&a);
    verdict of_dq = {0}, of_dk = {0}, of_dv = {0};

    forward(&a);
    backward(&a);
    for (int64_t i = 0; i < n_q; i++)
        judge(&of_dq, (double)a.dq[i], g.dq[i], rounded(&a, g.dq[i], g.dq_bound[i]));
    for (int64_t i = 0; i < n_k; i++) {
        judge(&of_dk, (double)a.dk[i], g.dk[i], rounded(&a, g.dk[i], g.dk_bound[i]));
        judge(&of_dv, (double)a.dv[i], g.dv[i], rounded(&a, g.dv[i], g.dv_bound[i]));
    }
    ck_assert_int_eq(of_dq.n_wrong, 0);
    ck_assert_int_eq(of_dk.n_wrong, 0);
    ck_assert_int_eq(of_dv.n_wrong, 0);
    ck_assert(a.dq[n_q] == SENTINEL && a.dk[n_k] == SENTINEL && a.dv[n_k] == SENTINEL);
    ck_assert(a.scratch[pl_attention_scratch(a.z.T, a.z.H)] == SENTINEL);
    gradients_destroy(&g);
    arrays_destroy(&a);
}
END_TEST

/** sum(do * o) in f64, with one element of q, k or v moved by h. */
static double loss_of_f64(const arrays *a, const float *moved, int64_t index, double h)
{
    const shape *z = &a->z;
    double *w = pl_alloc((size_t)z->T * sizeof *w), loss = 0.0;
    const double scale = (double)a->scale;

#define ELEMENT(x, i) ((double)(x)[i] + ((x) == moved && (i) == index ? h : 0.0))
    for (int64_t t = 0; t < z->T; t++)
        for (int64_t b = 0; b < z->B; b++)
            for (int64_t n = 0; n < z->N; n++) {
                const int64_t q = at_q(z, t, b, n);
                double sum = 0.0, value = 0.0;

                for (int64_t s = 0; s <= t; s++) {
                    const int64_t k = at_k(z, s, b, n);

                    w[s] = 0.0;
                    for (int64_t i = 0; i < z->H; i++)
                        w[s] += scale * ELEMENT(a->q, q + i) * ELEMENT(a->k, k + i);
                    w[s] = exp(w[s]);
                    sum += w[s];
                    for (int64_t i = 0; i < z->H; i++)
                        value += w[s] * (double)a->do_[q + i] * ELEMENT(a->v, k + i);
                }
                loss += value / sum;
            }
#undef ELEMENT
    pl_free(w);
    return loss;
}

/** The central difference errs by h^2 / 6 times the third derivative (below 10 here, as all inputs
 * are below 1) and by the loss's f64 rounding over h. */
static void judge_by_difference(const arrays *a, const float *x, const float *dx, int64_t n,
                                const double *bound, verdict *v)
{
    const double h = 1e-4;

    for (int64_t i = 0; i < n; i += 1 + n / 23) {
        const double slope = (loss_of_f64(a, x, i, h) - loss_of_f64(a, x, i, -h)) / (2 * h);

        judge(v, (double)dx[i], slope, bound[i] + 10 * h * h / 6 + 1e3 * 0x1p-53 / h);
    }
}

START_TEST(backward_agrees_with_differences_of_f64_forward)
{
    arrays a = arrays_create((shape){37, 2, 4, 2, 18, 1.0}, PL_F32);
    const int64_t n_q = 37 * 2 * 4 * 18, n_k = 37 * 2 * 2 * 18;
    gradients g = gradients_create(&a);
    verdict v = {0};

    forward(&a);
    backward(&a);
    judge_by_difference(&a, a.q, a.dq, n_q, g.dq_bound, &v);
    judge_by_difference(&a, a.k, a.dk, n_k, g.dk_bound, &v);
    judge_by_difference(&a, a.v, a.dv, n_k, g.dv_bound, &v);
    ck_assert_int_eq(v.n_wrong, 0);
    gradients_destroy(&g);
    arrays_destroy(&a);
}
END_TEST

START_TEST(later_keys_do_not_change_earlier_outputs)
{
    if (!use_isa(_i / 2))
        ck_skip("this CPU lacks the ISA");
    arrays a = arrays_create((shape){100, 1, 2, 1, 18, 1.0}, _i % 2 ? PL_BF16 : PL_F32);
    float *before = pl_alloc(70 * 2 * 18 * sizeof *before);

    forward(&a);
    memcpy(before, a.o, 70 * 2 * 18 * sizeof *before);
    for (int64_t i = 70 * 18; i < 100 * 18; i++) { /* k and v from t = 70 on */
        a.k[i] = 50.0f;
        a.v[i] = -1e30f;
    }
    forward(&a);
    ck_assert_mem_eq(before, a.o, 70 * 2 * 18 * sizeof *before);
    pl_free(before);
    arrays_destroy(&a);
}
END_TEST

/** Splitting the heads (tensor parallelism) or the batch must not change a bit. */
START_TEST(a_head_is_computed_alike_wherever_it_is_held)
{
    if (!use_isa(_i / 2))
        ck_skip("this CPU lacks the ISA");
    arrays whole = arrays_create((shape){70, 2, 4, 2, 18, 1.0}, _i % 2 ? PL_BF16 : PL_F32);
    arrays part = arrays_create((shape){70, 1, 2, 1, 18, 1.0}, _i % 2 ? PL_BF16 : PL_F32);
    int64_t n_wrong = 0;

    for (int64_t t = 0; t < 70; t++) { /* batch 1, query heads 2 and 3, key head 1 */
        memcpy(part.q + t * 36, whole.q + at_q(&whole.z, t, 1, 2), 36 * sizeof(float));
        memcpy(part.k + t * 18, whole.k + at_k(&whole.z, t, 1, 2), 18 * sizeof(float));
        memcpy(part.v + t * 18, whole.v + at_k(&whole.z, t, 1, 2), 18 * sizeof(float));
        memcpy(part.do_ + t * 36, whole.do_ + at_q(&whole.z, t, 1, 2), 36 * sizeof(float));
    }
    forward(&whole);
    backward(&whole);
    forward(&part);
    backward(&part);
    for (int64_t t = 0; t < 70; t++) {
        const int64_t q = at_q(&whole.z, t, 1, 2), k = at_k(&whole.z, t, 1, 2);

        n_wrong += memcmp(part.o + t * 36, whole.o + q, 36 * sizeof(float)) != 0;
        n_wrong += memcmp(part.dq + t * 36, whole.dq + q, 36 * sizeof(float)) != 0;
        n_wrong += memcmp(part.dk + t * 18, whole.dk + k, 18 * sizeof(float)) != 0;
        n_wrong += memcmp(part.dv + t * 18, whole.dv + k, 18 * sizeof(float)) != 0;
    }
    ck_assert_int_eq(n_wrong, 0);
    arrays_destroy(&whole);
    arrays_destroy(&part);
}
END_TEST

START_TEST(a_nan_reaches_whoever_sees_it_and_nobody_else)
{
    if (!use_isa(_i / 2))
        ck_skip("this CPU lacks the ISA");
    arrays a = arrays_create((shape){100, 1, 2, 1, 18, 1.0}, _i % 2 ? PL_BF16 : PL_F32);

    a.k[70 * 18 + 3] = NAN; /* seen from t = 70 on */
    a.v[90 * 18 + 5] = INFINITY;
    forward(&a);
    for (int64_t i = 0; i < 100 * 2 * 18; i++)
        ck_assert_msg(isfinite(a.o[i]) == (i / (2 * 18) < 70), "o[%lld] = %g", (long long)i,
                      (double)a.o[i]);
    backward(&a); /* dk of the first keys is summed over all queries: all see the NaN through lse */
    for (int64_t t = 0; t < 100; t++)
        ck_assert(isfinite(a.dq[t * 36]) == (t < 70) && isnan(a.dk[t * 18]));
    arrays_destroy(&a);
}
END_TEST

/** Subnormal q and k weigh all keys alike; scores of 10^36 pick one. */
START_TEST(subnormal_and_huge_scores_give_finite_outputs)
{
    enum { T = 70, H = 16 };

    if (!use_isa(_i / 2))
        ck_skip("this CPU lacks the ISA");
    arrays a = arrays_create((shape){T, 1, 1, 1, H, 1.0}, _i % 2 ? PL_BF16 : PL_F32);
    verdict v = {0};

    for (int64_t i = 0; i < T * H; i++)
        a.q[i] = a.k[i] = i % 2 ? 0x1p-130f : -0x1p-133f;
    for (int64_t i = 0; i < T * H; i++)
        a.v[i] = (float)(i / H); /* exact in bf16; the mean is t / 2 */
    forward(&a);
    for (int64_t i = 0; i < T * H; i++)
        judge(&v, (double)a.o[i], (double)(i / H) / 2,
              (double)(i / H) / 2 * (gamma_n(2 * T + 4) + a.unit));
    for (int64_t i = 0; i < T * H; i++)
        a.q[i] = a.k[i] = i / H == 40 || i / H >= 50 ? 1e18f : 0.0f; /* key 40 ... */
    for (int64_t i = 50 * H; i < T * H; i++)
        a.k[i] = -1e18f; /* ... and those against which nobody looks */
    forward(&a);
    for (int64_t i = 50 * H; i < T * H; i++)
        judge(&v, (double)a.o[i], 40.0, 0.0);
    backward(&a);
    for (int64_t i = 0; i < T * H; i++)
        ck_assert(isfinite(a.dq[i]) && isfinite(a.dk[i]) && isfinite(a.dv[i]));
    ck_assert_int_eq(v.n_wrong, 0);
    arrays_destroy(&a);
}
END_TEST

/** What an array of n elements starts with when no kernel wrote into it. */
static float untouched(const arrays *a, int64_t n)
{
    return n > 0 && a->unit > 0.0 ? pl_bf16_to_f32(pl_bf16_of_f32(SENTINEL)) : SENTINEL;
}

START_TEST(empty_extents_do_nothing)
{
    static const shape empty[] = {
        {0, 2, 2, 1, 8, 1.0}, {5, 0, 2, 1, 8, 1.0}, {5, 2, 0, 0, 8, 1.0}, {5, 2, 2, 1, 0, 1.0}};

    const pl_dtype dtype = _i ? PL_BF16 : PL_F32;

    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        arrays a = arrays_create(empty[i], dtype);

        forward(&a);
        backward(&a);
        ck_assert(a.o[0] == untouched(&a, a.z.T * a.z.B * a.z.N * a.z.H));
        ck_assert(a.dk[0] == untouched(&a, a.z.T * a.z.B * a.z.K * a.z.H));
        arrays_destroy(&a);
    }
}
END_TEST

static void count_call(void *data)
{
    ++*(int *)data;
}

START_TEST(progress_is_called_for_every_query_head)
{
    arrays a = arrays_create((shape){9, 3, 4, 2, 8, 1.0}, PL_F32);
    int n_calls = 0;
    const pl_progress progress = {count_call, &n_calls};

    pl_attention_forward(9, 3, 4, 2, 8, a.scale, a.q, a.k, a.v, a.o, a.lse, a.scratch, &progress);
    ck_assert_int_eq(n_calls, 12);
    pl_attention_backward(9, 3, 4, 2, 8, a.scale, a.q, a.k, a.v, a.o, a.do_, a.lse, a.dq, a.dk,
                          a.dv, a.scratch, &progress);
    ck_assert_int_eq(n_calls, 24);
    arrays_destroy(&a);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("attention");
    TCase *tests = tcase_create("attention");

    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, forward_agrees_with_f64_within_its_bound, 0,
                        2 * PL_N_ISA * N_SHAPES);
    tcase_add_loop_test(tests, backward_agrees_with_f64_within_its_bound, 0,
                        2 * PL_N_ISA * N_SHAPES);
    tcase_add_test(tests, backward_agrees_with_differences_of_f64_forward);
    tcase_add_loop_test(tests, later_keys_do_not_change_earlier_outputs, 0, 2 * PL_N_ISA);
    tcase_add_loop_test(tests, a_nan_reaches_whoever_sees_it_and_nobody_else, 0, 2 * PL_N_ISA);
    tcase_add_loop_test(tests, subnormal_and_huge_scores_give_finite_outputs, 0, 2 * PL_N_ISA);
    tcase_add_loop_test(tests, a_head_is_computed_alike_wherever_it_is_held, 0, 2 * PL_N_ISA);
    tcase_add_loop_test(tests, empty_extents_do_nothing, 0, 2);
    tcase_add_test(tests, progress_is_called_for_every_query_head);
    suite_add_tcase(suite, tests);
    return ck_main(suite);
}
