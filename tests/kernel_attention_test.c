/* Attention against f64 written out plainly, with bounds carried through every step. */
#include "config.h"

#include "kernels/attention.h"

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

typedef struct {
    shape z;
    float scale;
    float *q, *k, *v, *do_, *o, *lse, *dq, *dk, *dv, *scratch;
} arrays;

static arrays arrays_create(shape z)
{
    const int64_t n_q = z.T * z.B * z.N * z.H, n_k = z.T * z.B * z.K * z.H;
    arrays a = {.z = z, .scale = (float)(1.0 / sqrt((double)z.H))};

    a.q = floats(n_q, 1, -z.spread, z.spread);
    a.k = floats(n_k, 2, -z.spread, z.spread);
    a.v = floats(n_k, 3, -1.0, 1.0);
    a.do_ = floats(n_q, 4, -1.0, 1.0);
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

static void forward(arrays *a)
{
    const shape *z = &a->z;

    pl_attention_forward(z->T, z->B, z->N, z->K, z->H, a->scale, a->q, a->k, a->v, a->o, a->lse,
                         a->scratch, NULL);
}

static void backward(arrays *a)
{
    const shape *z = &a->z;

    pl_attention_backward(z->T, z->B, z->N, z->K, z->H, a->scale, a->q, a->k, a->v, a->o, a->do_,
                          a->lse, a->dq, a->dk, a->dv, a->scratch, NULL);
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
        judge(of_o, (double)a->o[at_q(z, t, b, n) + h], o, 2 * r->w_error * sum_abs);
    }
    judge(of_lse, (double)a->lse[(t * z->B + b) * z->N + n], r->lse, r->lse_error);
}

START_TEST(forward_agrees_with_f64_within_its_bound)
{
    if (!use_isa(_i / N_SHAPES))
        ck_skip("this CPU lacks the ISA");
    arrays a = arrays_create(shapes[_i % N_SHAPES]);
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
    ck_assert(a.o[a.z.T * a.z.B * a.z.N * a.z.H] == SENTINEL);
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
    const double exponent = fmin(104.0, -log(w + 1e-300)); /* below e^-104 f32 gives 0 */
    const double w_error =
        w * (r->w_error + r->lse_error + (exponent + EXP_UNITS + 2) * UNIT) + LEAST;
    const double ds_error = w * (gamma_n((double)z->H + 1) * abs_dp + delta_error) +
                            w_error * fabs(dp - delta) + 4 * UNIT * w * (fabs(dp) + fabs(delta));

    for (int64_t h = 0; h < z->H; h++) {
        const double q_h = (double)a->q[q + h], k_h = (double)a->k[k + h];
        const double do_h = (double)a->do_[q + h];

        g->dq[q + h] += scale * ds * k_h;
        g->dk[k + h] += scale * ds * q_h;
        g->dv[k + h] += w * do_h;
        g->dq_bound[q + h] += scale * (ds_error + gamma_n(n_chain) * fabs(ds)) * fabs(k_h);
        g->dk_bound[k + h] += scale * (ds_error + gamma_n(n_chain) * fabs(ds)) * fabs(q_h);
        g->dv_bound[k + h] += (w_error + gamma_n(n_chain) * w) * fabs(do_h);
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
                const double delta_error =
                    (2 * r.w_error + gamma_n((double)z->H / 16 + 6)) * sum_abs;

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

START_TEST(backward_agrees_with_f64_within_its_bound)
{
    if (!use_isa(_i / N_SHAPES))
        ck_skip("this CPU lacks the ISA");
    arrays a = arrays_create(shapes[_i % N_SHAPES]);
    const int64_t n_q = a.z.T * a.z.B * a.z.N * a.z.H, n_k = a.z.T * a.z.B * a.z.K * a.z.H;
    gradients g = gradients_create(&a);
    verdict of_dq = {0}, of_dk = {0}, of_dv = {0};

    forward(&a);
    backward(&a);
    for (int64_t i = 0; i < n_q; i++)
        judge(&of_dq, (double)a.dq[i], g.dq[i], g.dq_bound[i]);
    for (int64_t i = 0; i < n_k; i++) {
        judge(&of_dk, (double)a.dk[i], g.dk[i], g.dk_bound[i]);
        judge(&of_dv, (double)a.dv[i], g.dv[i], g.dv_bound[i]);
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
    arrays a = arrays_create((shape){37, 2, 4, 2, 18, 1.0});
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
    arrays a = arrays_create((shape){100, 1, 2, 1, 18, 1.0});
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
    arrays whole = arrays_create((shape){70, 2, 4, 2, 18, 1.0});
    arrays part = arrays_create((shape){70, 1, 2, 1, 18, 1.0});
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

START_TEST(empty_extents_do_nothing)
{
    static const shape empty[] = {
        {0, 2, 2, 1, 8, 1.0}, {5, 0, 2, 1, 8, 1.0}, {5, 2, 0, 0, 8, 1.0}, {5, 2, 2, 1, 0, 1.0}};

    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        arrays a = arrays_create(empty[i]);

        forward(&a);
        backward(&a);
        ck_assert(a.o[0] == SENTINEL && a.dq[0] == SENTINEL);
        ck_assert(a.dk[0] == SENTINEL && a.dv[0] == SENTINEL);
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
    arrays a = arrays_create((shape){9, 3, 4, 2, 8, 1.0});
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
    tcase_add_loop_test(tests, forward_agrees_with_f64_within_its_bound, 0, PL_N_ISA * N_SHAPES);
    tcase_add_loop_test(tests, backward_agrees_with_f64_within_its_bound, 0, PL_N_ISA * N_SHAPES);
    tcase_add_test(tests, backward_agrees_with_differences_of_f64_forward);
    tcase_add_test(tests, later_keys_do_not_change_earlier_outputs);
    tcase_add_test(tests, a_head_is_computed_alike_wherever_it_is_held);
    tcase_add_test(tests, empty_extents_do_nothing);
    tcase_add_test(tests, progress_is_called_for_every_query_head);
    suite_add_tcase(suite, tests);
    return ck_main(suite);
}
