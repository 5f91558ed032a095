/* Attention against f64 written out plainly, with bounds carried through every step. */
#include "config.h"

#include "tests/attention_check.h"

#include "kernels/attention.h"
#include "tests/check_main.h"

#include <stdlib.h>
#include <string.h>

static const attention_shape shapes[] = {
    {1, 1, 1, 1, 2, 1.0, RANDOM, RANDOM},       {63, 2, 8, 4, 18, 1.0, RANDOM, RANDOM},
    {64, 1, 2, 1, 64, 1.0, RANDOM, RANDOM},     {65, 1, 2, 2, 8, 1.0, RANDOM, RANDOM},
    {130, 2, 3, 1, 16, 1.0, RANDOM, RANDOM},    {7, 3, 4, 2, 72, 1.0, RANDOM, RANDOM},
    {200, 1, 2, 1, 10, 30.0, RANDOM, RANDOM},   {129, 1, 2, 2, 33, 0.0, RANDOM, RANDOM},
    {257, 1, 1, 1, 64, 3.0, RANDOM, RANDOM},    {65, 1, 2, 1, 16, 1.0, DENORMAL, RANDOM},
    {65, 1, 2, 1, 16, 1.0, RANDOM, DENORMAL},   {66, 1, 2, 1, 16, 1.0, HUGE_SIZES, RANDOM},
    {66, 1, 2, 1, 16, 1.0, RANDOM, HUGE_SIZES}, {67, 1, 2, 1, 16, 1.0, ALL_SIZES, RANDOM},
    {67, 1, 2, 1, 16, 1.0, RANDOM, ALL_SIZES},  {68, 1, 2, 1, 16, 1.0, ONE_HOT, ALL_EQUAL},
    {68, 1, 2, 1, 16, 9.0, ALL_EQUAL, ONE_HOT}, {69, 1, 2, 1, 16, 1.0, ALL_ZERO, RANDOM},
    {69, 1, 2, 1, 16, 1.0, RANDOM, ALL_ZERO},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

START_TEST(forward_agrees_with_f64_within_its_bound)
{
    if (!use_isa(_i / 2 / N_SHAPES))
        ck_skip("this CPU lacks the ISA");
    attention_arrays a = attention_create(shapes[_i / 2 % N_SHAPES], _i % 2 ? PL_BF16 : PL_F32);
    verdict of_o = {0}, of_lse = {0};
    attention_row r = {.w = pl_alloc((size_t)a.z.T * sizeof(double))};

    attention_forward(&a);
    for (int64_t t = 0; t < a.z.T; t++)
        for (int64_t b = 0; b < a.z.B; b++)
            for (int64_t n = 0; n < a.z.N; n++) {
                attention_weigh(&a, t, b, n, &r);
                attention_judge_forward(&a, t, b, n, &r, &of_o, &of_lse);
            }
    ck_assert_int_eq(of_o.n_wrong, 0);
    ck_assert_int_eq(of_lse.n_wrong, 0);
    ck_assert(a.o[a.z.T * a.z.B * a.z.N * a.z.H] == SENTINEL); /* bf16: widen looks */
    ck_assert(a.lse[a.z.T * a.z.B * a.z.N] == SENTINEL);
    ck_assert(a.scratch[pl_attention_scratch(a.z.T, a.z.H)] == SENTINEL);
    pl_free(r.w);
    attention_destroy(&a);
}
END_TEST

START_TEST(backward_agrees_with_f64_within_its_bound)
{
    if (!use_isa(_i / 2 / N_SHAPES))
        ck_skip("this CPU lacks the ISA");
    attention_arrays a = attention_create(shapes[_i / 2 % N_SHAPES], _i % 2 ? PL_BF16 : PL_F32);
    const int64_t n_q = a.z.T * a.z.B * a.z.N * a.z.H, n_k = a.z.T * a.z.B * a.z.K * a.z.H;
    attention_sums g = attention_gradients(&a);
    verdict of_dq = {0}, of_dk = {0}, of_dv = {0};

    attention_forward(&a);
    attention_backward(&a);
    for (int64_t i = 0; i < n_q; i++)
        judge(&of_dq, (double)a.dq[i], g.dq[i], attention_rounding(&a, g.dq[i], g.dq_bound[i]));
    for (int64_t i = 0; i < n_k; i++) {
        judge(&of_dk, (double)a.dk[i], g.dk[i], attention_rounding(&a, g.dk[i], g.dk_bound[i]));
        judge(&of_dv, (double)a.dv[i], g.dv[i], attention_rounding(&a, g.dv[i], g.dv_bound[i]));
    }
    ck_assert_int_eq(of_dq.n_wrong, 0);
    ck_assert_int_eq(of_dk.n_wrong, 0);
    ck_assert_int_eq(of_dv.n_wrong, 0);
    ck_assert(a.dq[n_q] == SENTINEL && a.dk[n_k] == SENTINEL && a.dv[n_k] == SENTINEL);
    ck_assert(a.scratch[pl_attention_scratch(a.z.T, a.z.H)] == SENTINEL);
    attention_gradients_destroy(&g);
    attention_destroy(&a);
}
END_TEST

/** sum(do * o), in f64. */
typedef struct {
    const attention_arrays *a;
    double *q, *k, *v;
} loss_inputs;

/** The share of one query, of whose keys w[T] takes the weights. */
static double loss_of_query(const loss_inputs *in, int64_t t, int64_t b, int64_t n, double *w)
{
    const attention_shape *z = &in->a->z;
    const int64_t q = at_q(z, t, b, n);
    double sum = 0.0, value = 0.0;

    for (int64_t s = 0; s <= t; s++) {
        const int64_t k = at_k(z, s, b, n);

        w[s] = 0.0;
        for (int64_t i = 0; i < z->H; i++)
            w[s] += (double)in->a->scale * in->q[q + i] * in->k[k + i];
        w[s] = exp(w[s]);
        sum += w[s];
        for (int64_t i = 0; i < z->H; i++)
            value += w[s] * (double)in->a->do_[q + i] * in->v[k + i];
    }
    return value / sum;
}

static double loss(const void *context)
{
    const loss_inputs *in = context;
    const attention_shape *z = &in->a->z;
    double *w = pl_alloc((size_t)z->T * sizeof *w), sum = 0.0;

    for (int64_t t = 0; t < z->T; t++)
        for (int64_t b = 0; b < z->B; b++)
            for (int64_t n = 0; n < z->N; n++)
                sum += loss_of_query(in, t, b, n, w);
    pl_free(w);
    return sum;
}

/** The central difference errs by h^2 / 6 times the third derivative (below 10 here, as all inputs
 * are below 1) and by the loss's f64 rounding over h. */
static void judge_by_difference(const loss_inputs *in, double *x, const float *dx, int64_t n,
                                const double *bound, verdict *v)
{
    const double h = 1e-4;

    for (int64_t i = 0; i < n; i += 1 + n / 23)
        judge(v, (double)dx[i], difference(loss, in, x + i, h),
              bound[i] + 10 * h * h / 6 + 1e3 * 0x1p-53 / h);
}

START_TEST(backward_agrees_with_differences_of_f64_forward)
{
    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    attention_arrays a =
        attention_create((attention_shape){37, 2, 4, 2, 18, 1.0, RANDOM, RANDOM}, PL_F32);
    const int64_t n_q = 37 * 2 * 4 * 18, n_k = 37 * 2 * 2 * 18;
    attention_sums g = attention_gradients(&a);
    verdict v = {0};

    attention_forward(&a);
    attention_backward(&a);
    const loss_inputs in = {&a, widened(n_q, a.q), widened(n_k, a.k), widened(n_k, a.v)};

    judge_by_difference(&in, in.q, a.dq, n_q, g.dq_bound, &v);
    judge_by_difference(&in, in.k, a.dk, n_k, g.dk_bound, &v);
    judge_by_difference(&in, in.v, a.dv, n_k, g.dv_bound, &v);
    ck_assert_int_eq(v.n_wrong, 0);
    attention_gradients_destroy(&g);
    attention_destroy(&a);
}
END_TEST

START_TEST(later_keys_do_not_change_earlier_outputs)
{
    if (!use_isa(_i / 2))
        ck_skip("this CPU lacks the ISA");
    attention_arrays a = attention_create((attention_shape){100, 1, 2, 1, 18, 1.0, RANDOM, RANDOM},
                                          _i % 2 ? PL_BF16 : PL_F32);
    float *before = pl_alloc(70 * 2 * 18 * sizeof *before);

    attention_forward(&a);
    memcpy(before, a.o, 70 * 2 * 18 * sizeof *before);
    for (int64_t i = 70 * 18; i < 100 * 18; i++) { /* k and v from t = 70 on */
        a.k[i] = 50.0f;
        a.v[i] = -1e30f;
    }
    attention_forward(&a);
    ck_assert_mem_eq(before, a.o, 70 * 2 * 18 * sizeof *before);
    pl_free(before);
    attention_destroy(&a);
}
END_TEST

/** Splitting the heads (tensor parallelism) or the batch must not change a bit. */
START_TEST(a_head_is_computed_alike_wherever_it_is_held)
{
    if (!use_isa(_i / 2))
        ck_skip("this CPU lacks the ISA");
    attention_arrays whole = attention_create(
        (attention_shape){70, 2, 4, 2, 18, 1.0, RANDOM, RANDOM}, _i % 2 ? PL_BF16 : PL_F32);
    attention_arrays part = attention_create(
        (attention_shape){70, 1, 2, 1, 18, 1.0, RANDOM, RANDOM}, _i % 2 ? PL_BF16 : PL_F32);
    int64_t n_wrong = 0;

    for (int64_t t = 0; t < 70; t++) { /* batch 1, query heads 2 and 3, key head 1 */
        memcpy(part.q + t * 36, whole.q + at_q(&whole.z, t, 1, 2), 36 * sizeof(float));
        memcpy(part.k + t * 18, whole.k + at_k(&whole.z, t, 1, 2), 18 * sizeof(float));
        memcpy(part.v + t * 18, whole.v + at_k(&whole.z, t, 1, 2), 18 * sizeof(float));
        memcpy(part.do_ + t * 36, whole.do_ + at_q(&whole.z, t, 1, 2), 36 * sizeof(float));
    }
    attention_forward(&whole);
    attention_backward(&whole);
    attention_forward(&part);
    attention_backward(&part);
    for (int64_t t = 0; t < 70; t++) {
        const int64_t q = at_q(&whole.z, t, 1, 2), k = at_k(&whole.z, t, 1, 2);

        n_wrong += memcmp(part.o + t * 36, whole.o + q, 36 * sizeof(float)) != 0;
        n_wrong += memcmp(part.dq + t * 36, whole.dq + q, 36 * sizeof(float)) != 0;
        n_wrong += memcmp(part.dk + t * 18, whole.dk + k, 18 * sizeof(float)) != 0;
        n_wrong += memcmp(part.dv + t * 18, whole.dv + k, 18 * sizeof(float)) != 0;
    }
    ck_assert_int_eq(n_wrong, 0);
    attention_destroy(&whole);
    attention_destroy(&part);
}
END_TEST

START_TEST(a_nan_reaches_whoever_sees_it_and_nobody_else)
{
    if (!use_isa(_i / 2))
        ck_skip("this CPU lacks the ISA");
    attention_arrays a = attention_create((attention_shape){100, 1, 2, 1, 18, 1.0, RANDOM, RANDOM},
                                          _i % 2 ? PL_BF16 : PL_F32);

    a.k[70 * 18 + 3] = NAN; /* seen from t = 70 on */
    a.v[90 * 18 + 5] = INFINITY;
    attention_forward(&a);
    for (int64_t i = 0; i < 100 * 2 * 18; i++)
        ck_assert_msg(isfinite(a.o[i]) == (i / (2 * 18) < 70), "o[%lld] = %g", (long long)i,
                      (double)a.o[i]);
    attention_backward(
        &a); /* dk of the first keys is summed over all queries: all see the NaN through lse */
    for (int64_t t = 0; t < 100; t++)
        ck_assert(isfinite(a.dq[t * 36]) == (t < 70) && isnan(a.dk[t * 18]));
    attention_destroy(&a);
}
END_TEST

/** Subnormal q and k weigh all keys alike; scores of 10^36 pick one. */
START_TEST(subnormal_and_huge_scores_give_finite_outputs)
{
    enum { T = 70, H = 16 };

    if (!use_isa(_i / 2))
        ck_skip("this CPU lacks the ISA");
    attention_arrays a = attention_create((attention_shape){T, 1, 1, 1, H, 1.0, RANDOM, RANDOM},
                                          _i % 2 ? PL_BF16 : PL_F32);
    verdict v = {0};

    for (int64_t i = 0; i < T * H; i++)
        a.q[i] = a.k[i] = i % 2 ? 0x1p-130f : -0x1p-133f;
    for (int64_t i = 0; i < T * H; i++)
        a.v[i] = (float)(i / H); /* exact in bf16; the mean is t / 2 */
    attention_forward(&a);
    for (int64_t i = 0; i < T * H; i++)
        judge(&v, (double)a.o[i], (double)(i / H) / 2,
              (double)(i / H) / 2 * (gamma_n(2 * T + 4) + a.unit));
    for (int64_t i = 0; i < T * H; i++)
        a.q[i] = a.k[i] = i / H == 40 || i / H >= 50 ? 1e18f : 0.0f; /* key 40 ... */
    for (int64_t i = 50 * H; i < T * H; i++)
        a.k[i] = -1e18f; /* ... and those against which nobody looks */
    attention_forward(&a);
    for (int64_t i = 50 * H; i < T * H; i++)
        judge(&v, (double)a.o[i], 40.0, 0.0);
    attention_backward(&a);
    for (int64_t i = 0; i < T * H; i++)
        ck_assert(isfinite(a.dq[i]) && isfinite(a.dk[i]) && isfinite(a.dv[i]));
    ck_assert_int_eq(v.n_wrong, 0);
    attention_destroy(&a);
}
END_TEST

/** What an array of n elements starts with when no kernel wrote into it. */
static float untouched(const attention_arrays *a, int64_t n)
{
    return n > 0 && a->unit > 0.0 ? pl_bf16_to_f32(pl_bf16_of_f32(SENTINEL)) : SENTINEL;
}

START_TEST(empty_extents_do_nothing)
{
    static const attention_shape empty[] = {{0, 2, 2, 1, 8, 1.0, RANDOM, RANDOM},
                                            {5, 0, 2, 1, 8, 1.0, RANDOM, RANDOM},
                                            {5, 2, 0, 0, 8, 1.0, RANDOM, RANDOM},
                                            {5, 2, 2, 1, 0, 1.0, RANDOM, RANDOM}};

    const pl_dtype dtype = _i ? PL_BF16 : PL_F32;

    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        attention_arrays a = attention_create(empty[i], dtype);

        attention_forward(&a);
        attention_backward(&a);
        ck_assert(a.o[0] == untouched(&a, a.z.T * a.z.B * a.z.N * a.z.H));
        ck_assert(a.dk[0] == untouched(&a, a.z.T * a.z.B * a.z.K * a.z.H));
        attention_destroy(&a);
    }
}
END_TEST

static void count_call(void *data)
{
    ++*(int *)data;
}

START_TEST(progress_is_called_for_every_query_head)
{
    attention_arrays a =
        attention_create((attention_shape){9, 3, 4, 2, 8, 1.0, RANDOM, RANDOM}, PL_F32);
    int n_calls = 0;
    const pl_progress progress = {count_call, &n_calls};

    pl_attention_forward(9, 3, 4, 2, 8, a.scale, a.q, a.k, a.v, a.o, a.lse, a.scratch, &progress);
    ck_assert_int_eq(n_calls, 12);
    pl_attention_backward(9, 3, 4, 2, 8, a.scale, a.q, a.k, a.v, a.o, a.do_, a.lse, a.dq, a.dk,
                          a.dv, a.scratch, &progress);
    ck_assert_int_eq(n_calls, 24);
    attention_destroy(&a);
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
    tcase_add_loop_test(tests, backward_agrees_with_differences_of_f64_forward, 0, PL_N_ISA);
    tcase_add_loop_test(tests, later_keys_do_not_change_earlier_outputs, 0, 2 * PL_N_ISA);
    tcase_add_loop_test(tests, a_nan_reaches_whoever_sees_it_and_nobody_else, 0, 2 * PL_N_ISA);
    tcase_add_loop_test(tests, subnormal_and_huge_scores_give_finite_outputs, 0, 2 * PL_N_ISA);
    tcase_add_loop_test(tests, a_head_is_computed_alike_wherever_it_is_held, 0, 2 * PL_N_ISA);
    tcase_add_loop_test(tests, empty_extents_do_nothing, 0, 2);
    tcase_add_test(tests, progress_is_called_for_every_query_head);
    suite_add_tcase(suite, tests);
    return ck_main(suite);
}
