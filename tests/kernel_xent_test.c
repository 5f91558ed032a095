/* Cross-entropy, sharded or not, on every ISA of this CPU, against f64 written out plainly. */
#include "config.h"

#include "kernels/xent.h"

#include "tests/check_main.h"
#include "tests/kernel_check.h"

#include <string.h>

enum { X_R = 6 };
static const int64_t x_cuts[][4] = {
    {0, 257, 257, 257}, {0, 0, 257, 257}, {0, 86, 172, 257}, {0, 1, 2, 257}};

/** Rows: random, huge and far apart, all equal, one hot, very negative, target at the end. */
static float *logit_rows(int64_t V, int32_t *targets)
{
    float *l = floats(X_R * V, 1, -3.0, 3.0);

    for (int64_t v = 0; v < V; v++) {
        l[1 * V + v] = (float)(v % 2 == 0 ? 1e30 : -1e30);
        l[2 * V + v] = 7.0f;
        l[3 * V + v] = v == 100 ? 60.0f : -60.0f;
        l[4 * V + v] -= 1e6f;
    }
    const int32_t t[X_R] = {0, 255, 128, 100, 17, (int32_t)V - 1};

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

START_TEST(sharded_cross_entropy_agrees_with_f64)
{
    enum { V = 257, N_CUTS = 4 };
    int32_t targets[X_R];
    float *l = logit_rows(V, targets), m[X_R], s[X_R], picked[X_R], loss, *dl = sentinels(X_R * V);
    double want = 0.0, bound = 0.0;
    const double scale = 1.0 / X_R;
    verdict v = {0};

    if (!use_isa(_i / N_CUTS))
        ck_skip("this CPU lacks the ISA");
    combine(l, targets, V, x_cuts[_i % N_CUTS], m, s, picked);
    pl_xent_grad(X_R, V, 0, l, targets, m, s, scale, dl);
    for (int r = 0; r < X_R; r++) {
        double most, sum;
        const double loss_r = row_loss(l + r * V, V, targets[r], &most, &sum);
        /* exp's argument: rounded once, at most 104 where exp is not 0; exp; the sum */
        const double e = (104 + EXP_UNITS) * UNIT + gamma_n(V / 16 + 8);

        ck_assert(m[r] == (float)most);
        judge(&v, (double)s[r], sum, e * sum);
        judge(&v, (double)picked[r], (double)l[r * V + targets[r]], 0.0);
        want += scale * loss_r;
        bound += scale * (e + UNIT * fabs(loss_r));
        for (int64_t i = 0; i < V; i++) {
            const double p = exp((double)l[r * V + i] - most) / sum;
            const double hot = i == targets[r] ? 1.0 : 0.0;

            judge(&v, (double)dl[r * V + i], scale * (p - hot),
                  scale * (p * (2 * e + 4 * UNIT) + 3 * UNIT * hot));
        }
    }
    pl_xent_loss(X_R, m, s, picked, scale, false, &loss);
    judge(&v, (double)loss, want, bound);
    pl_xent_loss(X_R, m, s, picked, scale, true, &loss);
    judge(&v, (double)loss, 2 * want, 2 * bound + 2 * UNIT * fabs(want));
    ck_assert_int_eq(v.n_wrong, 0);
    ck_assert(dl[X_R * V] == SENTINEL);
    pl_xent_grad(X_R, V, 0, l, targets, m, s, scale, l);
    ck_assert_mem_eq(l, dl, X_R * V * sizeof *l);
}
END_TEST

START_TEST(cross_entropy_gradient_agrees_with_differences)
{
    enum { V = 257, R = 1 };
    const double h = 1e-4;
    const int32_t target = 200;
    float *l = floats(V, 5, -2.0, 2.0), m, s, picked, *dl = sentinels(V);
    verdict v = {0};

    pl_xent_max(R, V, l, &m);
    pl_xent_sum(R, V, 0, l, &target, &m, &s, &picked);
    pl_xent_grad(R, V, 0, l, &target, &m, &s, 2.0, dl);
    for (int i = 0; i < V; i++) {
        double sum_up = 0.0, sum_down = 0.0;

        for (int j = 0; j < V; j++) {
            sum_up += exp((double)l[j] + (i == j ? h : 0.0));
            sum_down += exp((double)l[j] - (i == j ? h : 0.0));
        }
        const double slope = (log(sum_up) - log(sum_down)) / (2 * h) - (i == target ? 1.0 : 0.0);

        /* the third derivative of log sum exp is at most 1; log is about 6 */
        judge(&v, (double)dl[i], 2.0 * slope,
              2.0 * (gamma_n(V / 16 + EXP_UNITS + 20) + h * h / 6 + 10 * 0x1p-53 / h));
    }
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

/** A NaN in the logits must reach the loss, though the maximum skips it. */
START_TEST(a_nan_logit_makes_the_loss_nan)
{
    const int32_t target = 0;
    float l[40] = {0}, m, s, picked, loss;

    if (!use_isa(_i / 40))
        ck_skip("this CPU lacks the ISA");
    l[_i % 40] = NAN;
    pl_xent_max(1, 40, l, &m);
    pl_xent_sum(1, 40, 0, l, &target, &m, &s, &picked);
    pl_xent_loss(1, &m, &s, &picked, 1.0, false, &loss);
    ck_assert(isnan(loss));
}
END_TEST

START_TEST(cross_entropy_rounds_once)
{
    enum { R = 40, V = 203, BEGIN = 10 };
    int32_t targets[R];
    float *logits = floats(R * V, 1, -3.0, 3.0);
    float *m[2] = {sentinels(R), sentinels(R)}, *s[2] = {sentinels(R), sentinels(R)};
    float *picked[2] = {sentinels(R), sentinels(R)};

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    for (int r = 0; r < R; r++) { /* likely targets: p and 1 are of one size */
        targets[r] = BEGIN + r;
        logits[r * V + r] = 4.0f + 0.1f * (float)r;
    }
    targets[1] = BEGIN - 1; /* these two are held elsewhere */
    targets[3] = BEGIN + V;
    logits[2 * V + 50] = 0x1p100f; /* one hot */
    logits[4 * V + 3] = -INFINITY; /* masked out */
    const both l = both_of(R * V, logits), dl = both_of(R * V, sentinels(R * V));

    pl_xent_max(R, V, l.wide, m[0]);
    pl_xent_max_bf16(R, V, l.narrow, m[1]);
    check_equal("m", R, m[1], m[0]);
    pl_xent_sum(R, V, BEGIN, l.wide, targets, m[0], s[0], picked[0]);
    pl_xent_sum_bf16(R, V, BEGIN, l.narrow, targets, m[1], s[1], picked[1]);
    check_equal("s", R, s[1], s[0]);
    check_equal("picked", R, picked[1], picked[0]);
    pl_xent_grad(R, V, BEGIN, l.wide, targets, m[0], s[0], 0.3, dl.wide);
    pl_xent_grad_bf16(R, V, BEGIN, l.narrow, targets, m[1], s[1], 0.3, dl.narrow);
    check_rounded("dlogits", R * V, dl);
    pl_xent_grad_bf16(R, V, BEGIN, l.narrow, targets, m[1], s[1], 0.3, l.narrow);
    ck_assert_mem_eq(l.narrow, dl.narrow, R * V * sizeof *l.narrow);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("xent");
    TCase *tests = tcase_create("xent");

    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, sharded_cross_entropy_agrees_with_f64, 0, PL_N_ISA * 4);
    tcase_add_test(tests, cross_entropy_gradient_agrees_with_differences);
    tcase_add_test(tests, the_loss_is_summed_in_f64_and_rounded_once);
    tcase_add_test(tests, empty_vocabulary_shards_add_nothing);
    tcase_add_loop_test(tests, a_nan_logit_makes_the_loss_nan, 0, PL_N_ISA * 40);
    tcase_add_loop_test(tests, cross_entropy_rounds_once, 0, PL_N_ISA);
    suite_add_tcase(suite, tests);
    return ck_main(suite);
}
