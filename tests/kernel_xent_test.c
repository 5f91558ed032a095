/* Cross-entropy, sharded or not, on every ISA of this CPU, against f64 written out plainly. */
#include "config.h"

#include "kernels/xent.h"

#include "kernels/lanes.h"
#include "tests/check_main.h"
#include "tests/kernel_check.h"

#include <string.h>

enum { X_R = 10, X_V = 257 };
static const int64_t x_cuts[][4] = {
    {0, X_V, X_V, X_V}, {0, 0, X_V, X_V}, {0, 86, 172, X_V}, {0, 1, 2, X_V}};
enum { N_CUTS = sizeof x_cuts / sizeof *x_cuts };

/** Rows: random, huge and far apart, all equal, one hot, very negative, denormal, masked out but
 * for a few, of all sizes, all zero, target at the end. */
static float *logit_rows(int32_t *targets)
{
    static const int32_t t[X_R] = {0, 255, 128, 100, 17, 5, 70, 90, 4, X_V - 1};
    float *l = floats(X_R * X_V, 1, -3.0, 3.0);
    const float *denormals = inputs(DENORMAL, X_V, X_V, 2, 0.0);
    const float *sizes = inputs(ALL_SIZES, X_V, X_V, 3, 0.0);

    for (int v = 0; v < X_V; v++) {
        l[1 * X_V + v] = (float)(v % 2 == 0 ? 1e30 : -1e30);
        l[2 * X_V + v] = 7.0f;
        l[3 * X_V + v] = v == 100 ? 60.0f : -60.0f;
        l[4 * X_V + v] -= 1e6f;
        l[5 * X_V + v] = denormals[v];
        l[6 * X_V + v] = v % 10 == 0 ? l[6 * X_V + v] : -INFINITY;
        l[7 * X_V + v] = sizes[v];
        l[8 * X_V + v] = 0.0f;
    }
    memcpy(targets, t, sizeof t);
    return l;
}

/** m, s, picked over shards cut at `cuts`, combined as the collectives would. */
static void combine(const float *l, const int32_t *targets, int64_t V, const int64_t *cuts,
                    float *m, float *s, float *picked)
{
    float part_m[X_R], part_s[X_R], part_picked[X_R], *shard = sentinels(X_R * V);

    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < 3; i++) {
            const int64_t n = cuts[i + 1] - cuts[i];

            for (int64_t r = 0; r < X_R; r++)
                memcpy(shard + r * n, l + r * V + cuts[i], (size_t)n * sizeof *l);
            if (pass == 0)
                pl_xent_max(X_R, n, shard, part_m);
            else
                pl_xent_sum(X_R, n, cuts[i], shard, targets, m, part_s, part_picked);
            for (int r = 0; r < X_R; r++) {
                if (pass == 0) {
                    m[r] = i == 0 ? part_m[r] : fmaxf(m[r], part_m[r]);
                    continue;
                }
                s[r] = i == 0 ? part_s[r] : s[r] + part_s[r];
                picked[r] = i == 0 ? part_picked[r] : picked[r] + part_picked[r];
            }
        }
    pl_free(shard);
}

/** The row's loss in f64: log sum exp - picked. */
static double row_loss(const float *l, int64_t V, int32_t target, double *most, double *sum)
{
    *most = -INFINITY;
    *sum = 0.0;
    for (int64_t v = 0; v < V; v++)
        *most = fmax(*most, (double)l[v]);
    for (int64_t v = 0; v < V; v++)
        *sum += exp((double)l[v] - *most);
    return log(*sum) + *most - (double)l[target];
}

/** s and picked of one row, and its share of the loss and of the loss's bound. */
static void judge_row(int r, const float *l, int32_t target, float s, float picked, double scale,
                      const float *dl, double *loss, double *loss_bound, verdict *v)
{
    double most, sum;
    const double loss_r = row_loss(l, X_V, target, &most, &sum);
    /* exp's argument: rounded once, at most 104 where exp is not 0; exp; the sum */
    const double e = (104 + EXP_UNITS) * UNIT + gamma_n(X_V / 16 + 8);

    judge(v, (double)s, sum, e * sum + X_V * 0x1p-125);
    judge(v, (double)picked, (double)l[target], 0.0);
    *loss += scale * loss_r;
    *loss_bound += scale * (e + UNIT * fabs(loss_r));
    for (int64_t i = 0; i < X_V; i++) {
        const double p = exp((double)l[i] - most) / sum, hot = i == target ? 1.0 : 0.0;

        judge(v, (double)dl[r * X_V + i], scale * (p - hot),
              scale * (p * (2 * e + 4 * UNIT) + 3 * UNIT * hot + 0x1p-125));
    }
}

/** Case: the ISA, the cuts; terms below e^-87 < 2^-125 are 0. */
START_TEST(sharded_cross_entropy_agrees_with_f64)
{
    int32_t targets[X_R];
    float *l = logit_rows(targets), m[X_R], s[X_R], picked[X_R], loss, *dl = sentinels(X_R * X_V);
    double want = 0.0, bound = 0.0;
    const double scale = 1.0 / X_R;
    verdict v = {0};

    if (!use_isa(_i / N_CUTS))
        ck_skip("this CPU lacks the ISA");
    combine(l, targets, X_V, x_cuts[_i % N_CUTS], m, s, picked);
    pl_xent_grad(X_R, X_V, 0, l, targets, m, s, scale, dl);
    for (int r = 0; r < X_R; r++) {
        float most = -INFINITY;

        for (int i = 0; i < X_V; i++)
            most = fmaxf(most, l[r * X_V + i]);
        ck_assert(m[r] == most);
        judge_row(r, l + r * X_V, targets[r], s[r], picked[r], scale, dl, &want, &bound, &v);
    }
    pl_xent_loss(X_R, m, s, picked, scale, false, &loss);
    judge(&v, (double)loss, want, bound);
    pl_xent_loss(X_R, m, s, picked, scale, true, &loss);
    judge(&v, (double)loss, 2 * want, 2 * bound + 2 * UNIT * fabs(want));
    ck_assert_int_eq(v.n_wrong, 0);
    ck_assert(dl[X_R * X_V] == SENTINEL);
    pl_xent_grad(X_R, X_V, 0, l, targets, m, s, scale, l);
    ck_assert_mem_eq(l, dl, X_R * X_V * sizeof *l);
}
END_TEST

/** Each shard makes its own part of the gradient, with the bits of the whole. */
START_TEST(sharded_gradients_are_parts_of_the_whole)
{
    int32_t targets[X_R];
    const float *l = logit_rows(targets);
    const int64_t *cuts = x_cuts[_i % N_CUTS];
    float m[X_R], s[X_R], picked[X_R], *whole = sentinels(X_R * X_V);

    if (!use_isa(_i / N_CUTS))
        ck_skip("this CPU lacks the ISA");
    combine(l, targets, X_V, cuts, m, s, picked);
    pl_xent_grad(X_R, X_V, 0, l, targets, m, s, 0.3, whole);
    for (int i = 0; i < 3; i++) {
        const int64_t n = cuts[i + 1] - cuts[i];
        float *shard = sentinels(X_R * n), *dl = sentinels(X_R * n);

        for (int64_t r = 0; r < X_R; r++)
            memcpy(shard + r * n, l + r * X_V + cuts[i], (size_t)n * sizeof *l);
        pl_xent_grad(X_R, n, cuts[i], shard, targets, m, s, 0.3, dl);
        for (int64_t r = 0; r < X_R; r++)
            ck_assert(memcmp(dl + r * n, whole + r * X_V + cuts[i], (size_t)n * sizeof *dl) == 0);
        ck_assert(dl[X_R * n] == SENTINEL);
    }
}
END_TEST

/** 2 (log sum exp(l) - l[target]), in f64. */
typedef struct {
    int64_t V;
    int32_t target;
    const double *l;
} loss_inputs;

static double doubled_loss(const void *context)
{
    const loss_inputs *in = context;
    double sum = 0.0;

    for (int64_t v = 0; v < in->V; v++)
        sum += exp(in->l[v]);
    return 2.0 * (log(sum) - in->l[in->target]);
}

START_TEST(cross_entropy_gradient_agrees_with_differences)
{
    enum { V = 257, R = 1 };
    const double h = 1e-4;
    const int32_t target = 200;
    float *l = floats(V, 5, -2.0, 2.0), m, s, picked, *dl = sentinels(V);
    double *wide = widened(V, l);
    const loss_inputs in = {V, target, wide};
    verdict v = {0};

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    pl_xent_max(R, V, l, &m);
    pl_xent_sum(R, V, 0, l, &target, &m, &s, &picked);
    pl_xent_grad(R, V, 0, l, &target, &m, &s, 2.0, dl);
    /* the third derivative of log sum exp is at most 1; the sum is V roundings off, log is about 6
     */
    for (int i = 0; i < V; i++)
        judge(&v, (double)dl[i], difference(doubled_loss, &in, wide + i, h),
              2.0 * (gamma_n(V / 16 + EXP_UNITS + 20) + h * h / 6 + (V + 10) * 0x1p-53 / h));
    ck_assert_int_eq(v.n_wrong, 0);
}
END_TEST

START_TEST(the_loss_is_summed_in_f64_and_rounded_once)
{
    const float m[3] = {1e6f, -2.0f, 0.0f}, s[3] = {3.0f, 7e5f, 1.0f};
    const float picked[3] = {999999.0f, -2.0f, 0.0f};
    const double want = (log(3.0) + 1.0 + log(7e5)) / 3;
    float loss;

    pl_xent_loss(3, m, s, picked, 1.0 / 3, false, &loss);
    ck_assert_double_le(fabs((double)loss - want), (UNIT + 8 * 0x1p-53) * want);
}
END_TEST

START_TEST(empty_vocabulary_shards_add_nothing)
{
    const int32_t targets[2] = {0, 5};
    const float m_all[2] = {1.0f, 2.0f};
    float m[2] = {5.0f, 5.0f}, s[2] = {5.0f, 5.0f}, picked[2] = {5.0f, 5.0f}, loss = 5.0f;

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    pl_xent_max(2, 0, NULL, m);
    ck_assert(m[0] == -INFINITY && m[1] == -INFINITY);
    pl_xent_sum(2, 0, 3, NULL, targets, m_all, s, picked);
    ck_assert(s[0] == 0.0f && s[1] == 0.0f && picked[0] == 0.0f && picked[1] == 0.0f);
    pl_xent_grad(2, 0, 3, NULL, targets, m_all, s, 1.0, NULL);
    pl_xent_max(0, 9, NULL, NULL);
    pl_xent_loss(0, NULL, NULL, NULL, 1.0, true, &loss);
    ck_assert(loss == 5.0f);
    pl_xent_loss(0, NULL, NULL, NULL, 1.0, false, &loss);
    ck_assert(loss == 0.0f);
}
END_TEST

/** In bf16, at each place of a block and of its end, of either sign. */
START_TEST(a_nan_logit_of_bf16_makes_the_sum_nan)
{
    enum { V = 150 };
    const int32_t target = 0;
    pl_bf16 l[V];
    float m, s, picked;

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    for (int place = 0; place < V; place++) {
        for (int i = 0; i < V; i++)
            l[i] = pl_bf16_of_f32(i % 3 == 0 ? -INFINITY : -(float)i);
        l[place] = place % 2 == 0 ? 0x7fc1 : 0xffff;
        pl_xent_max_bf16(1, V, l, &m);
        ck_assert(m == (place == 1 ? -2.0f : -1.0f));
        pl_xent_sum_bf16(1, V, 0, l, &target, &m, &s, &picked);
        ck_assert(isnan(s));
    }
}
END_TEST

/** A NaN in the logits must reach the loss, though the maximum skips it, and +infinity too; only
 * its row's gradient is spoilt. */
START_TEST(a_bad_logit_makes_the_loss_nan)
{
    enum { R = 3, V = 40 };
    const int32_t targets[R] = {0, 0, 0};
    float *l = floats(R * V, 1, -1.0, 1.0), dl[R * V], m[R], s[R], picked[R], loss;

    if (!use_isa(_i / V / 2))
        ck_skip("this CPU lacks the ISA");
    l[V + _i % V] = _i / V % 2 ? NAN : INFINITY;
    pl_xent_max(R, V, l, m);
    pl_xent_sum(R, V, 0, l, targets, m, s, picked);
    pl_xent_loss(R, m, s, picked, 1.0, false, &loss);
    ck_assert(isnan(loss));
    pl_xent_grad(R, V, 0, l, targets, m, s, 1.0, dl);
    for (int i = 0; i < R * V; i++)
        ck_assert(i / V == 1 || isfinite(dl[i]));
    ck_assert(isnan(dl[V + _i % V]));
}
END_TEST

/** Fail unless sums and gradients of bf16 logits are those of f32 but for the exponentials. */
static void check_narrow(int64_t R, int64_t V, const float *s, const float *s_wide, double scale,
                         const int64_t *target, both dl)
{
    const double e = PL_EXP_NARROW_ERROR + gamma_n((double)V / 64 + 10);
    verdict v = {0};

    for (int64_t r = 0; r < R; r++) {
        judge(&v, (double)s[r], (double)s_wide[r], e * (double)s_wide[r]);
        for (int64_t i = 0; i < V; i++) {
            const double x = (double)dl.wide[r * V + i];
            const double p = x / scale + (i == target[r] ? 1.0 : 0.0);

            judge_bf16(&v, dl.narrow[r * V + i], x, scale * (e * p + gamma_n(6) * (p + 1)));
        }
    }
    ck_assert_int_eq(v.n_wrong, 0);
}

START_TEST(cross_entropy_rounds_once)
{
    enum { R = 40, V = 203, BEGIN = 10 };
    int32_t targets[R];
    float *logits = floats(R * V, 1, -3.0, 3.0);
    float *m[2] = {sentinels(R), sentinels(R)}, *s[2] = {sentinels(R), sentinels(R)};
    float *picked[2] = {sentinels(R), sentinels(R)};
    int64_t at[R];

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    for (int r = 0; r < R; r++) { /* likely targets: p and 1 are of one size */
        targets[r] = BEGIN + r;
        logits[r * V + r] = 4.0f + 0.1f * (float)r;
    }
    targets[1] = BEGIN - 1; /* these two are held elsewhere */
    targets[3] = BEGIN + V;
    for (int r = 0; r < R; r++)
        at[r] = targets[r] - BEGIN;
    logits[2 * V + 50] = 0x1p100f; /* one hot */
    logits[4 * V + 3] = -INFINITY; /* masked out */
    const both l = both_of(R * V, logits), dl = both_of(R * V, sentinels(R * V));

    pl_xent_max(R, V, l.wide, m[0]);
    pl_xent_max_bf16(R, V, l.narrow, m[1]);
    check_equal("m", R, m[1], m[0]);
    pl_xent_sum(R, V, BEGIN, l.wide, targets, m[0], s[0], picked[0]);
    pl_xent_sum_bf16(R, V, BEGIN, l.narrow, targets, m[1], s[1], picked[1]);
    if (!has_narrow_exp())
        check_equal("s", R, s[1], s[0]);
    check_equal("picked", R, picked[1], picked[0]);
    pl_xent_grad(R, V, BEGIN, l.wide, targets, m[0], s[0], 0.3, dl.wide);
    pl_xent_grad_bf16(R, V, BEGIN, l.narrow, targets, m[1], s[0], 0.3, dl.narrow);
    if (!has_narrow_exp())
        check_rounded("dlogits", R * V, dl);
    check_narrow(R, V, s[1], s[0], 0.3, at, dl);
    pl_xent_grad_bf16(R, V, BEGIN, l.narrow, targets, m[1], s[0], 0.3, l.narrow);
    ck_assert_mem_eq(l.narrow, dl.narrow, R * V * sizeof *l.narrow);
}
END_TEST

/** Rows that fall from a maximum, near 0 or far from it, to below e^-87 of it: what counts keeps its
 * bound, what does not is 0. Logits are of bf16 in both types, so that l - m is exact. */
START_TEST(terms_down_to_their_least_count_wherever_the_maximum_lies)
{
    enum { V = 203 };
    static const float most[] = {0, 1, -1, 60, -60, 130, -130, 256, -256, 258, -512, 1000, -4096};
    enum { R = sizeof most / sizeof most[0] };
    const double scale = 0x1p20, e_wide = gamma_n(2 * (EXP_UNITS + V / 16 + 8));
    const double e_narrow = 2 * PL_EXP_NARROW_ERROR + gamma_n(20);
    int32_t elsewhere[R];
    float *logits = floats(R * V, 1, 0.0, 1.0), m[R], s[2][R], picked[R];
    verdict v = {0};

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    for (int i = 0; i < R * V; i++)
        logits[i] = most[i / V] - 0.5f * (float)(i % V);
    for (int r = 0; r < R; r++)
        elsewhere[r] = V;
    const both l = both_of(R * V, logits), dl = both_of(R * V, sentinels(R * V));

    pl_xent_max(R, V, l.wide, m);
    ck_assert_mem_eq(m, most, sizeof m);
    pl_xent_sum(R, V, 0, l.wide, elsewhere, m, s[0], picked);
    pl_xent_sum_bf16(R, V, 0, l.narrow, elsewhere, m, s[1], picked);
    pl_xent_grad(R, V, 0, l.wide, elsewhere, m, s[0], scale, dl.wide);
    pl_xent_grad_bf16(R, V, 0, l.narrow, elsewhere, m, s[1], scale, dl.narrow);
    for (int r = 0; r < R; r++) {
        double sum = 0;

        for (int i = r * V; i < (r + 1) * V; i++)
            sum += exp((double)l.wide[i] - (double)m[r]);
        judge(&v, (double)s[0][r], sum, e_wide * sum);
        judge(&v, (double)s[1][r], sum, e_narrow * sum);
        for (int i = r * V; i < (r + 1) * V; i++) {
            const double x = (double)l.wide[i] - (double)m[r], want = scale * exp(x) / sum;

            if (x >= -86.5) /* the least of bf16, which may be that of f32 too */
                judge_bf16(&v, dl.narrow[i], want, e_narrow * want);
            if (x >= -87)
                judge(&v, (double)dl.wide[i], want, e_wide * want);
            else
                ck_assert(dl.wide[i] == 0.0f && dl.narrow[i] == 0);
        }
    }
    ck_assert_int_eq(v.n_wrong, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("xent");
    TCase *tests = tcase_create("xent");

    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, sharded_cross_entropy_agrees_with_f64, 0, PL_N_ISA * N_CUTS);
    tcase_add_loop_test(tests, sharded_gradients_are_parts_of_the_whole, 0, PL_N_ISA * N_CUTS);
    tcase_add_loop_test(tests, cross_entropy_gradient_agrees_with_differences, 0, PL_N_ISA);
    tcase_add_test(tests, the_loss_is_summed_in_f64_and_rounded_once);
    tcase_add_loop_test(tests, empty_vocabulary_shards_add_nothing, 0, PL_N_ISA);
    tcase_add_loop_test(tests, a_bad_logit_makes_the_loss_nan, 0, PL_N_ISA * 40 * 2);
    tcase_add_loop_test(tests, a_nan_logit_of_bf16_makes_the_sum_nan, 0, PL_N_ISA);
    tcase_add_loop_test(tests, cross_entropy_rounds_once, 0, PL_N_ISA);
    tcase_add_loop_test(tests, terms_down_to_their_least_count_wherever_the_maximum_lies, 0,
                        PL_N_ISA);
    suite_add_tcase(suite, tests);
    return ck_main(suite);
}
