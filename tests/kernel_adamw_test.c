/* AdamW, on every ISA of this CPU, against f64 written out plainly. */
#include "config.h"

#include "kernels/adamw.h"

#include "tests/check_main.h"
#include "tests/kernel_check.h"

#include <string.h>

/** One element's state. */
typedef struct {
    double p, m, v;
} state;

/** Compares one update of `before` by the gradient g with f64. Beside relative errors, each product
 * may lose LEAST; what v has lost by then, its root shows. */
static void judge_update(const pl_adamw_scalars *s, double g, state before, state after,
                         verdict *judged)
{
    const double g_1 = s->gradient_scale * g;
    const double m = s->beta1 * before.m + (1 - s->beta1) * g_1;
    const double v = s->beta2 * before.v + (1 - s->beta2) * g_1 * g_1;
    const double root = sqrt(v) / sqrt(s->bias2), rate = s->lr / s->bias1;
    const double m_error =
        gamma_n(5) * (fabs(before.m) + (1 - s->beta1) * (fabs(g_1) + fabs(before.m))) + 2 * LEAST;
    const double v_lost = 3 * LEAST + 2 * fabs(g_1) * LEAST;
    const double root_lost =
        (v > 4 * v_lost ? v_lost / sqrt(v) : 3 * sqrt(v_lost)) / sqrt(s->bias2);
    const double least = fmax(root - root_lost, 0.0) + s->eps; /* of the divisor */
    const double move = rate * m / (root + s->eps);
    const double move_error = fabs(move) * (gamma_n(14) + root_lost / least) +
                              rate * m_error / least + LEAST * (rate + 1);

    judge(judged, after.m, m, m_error);
    judge(judged, after.v, v, gamma_n(6) * v + v_lost);
    judge(judged, after.p, (1 - s->lr * s->weight_decay) * before.p - move,
          gamma_n(4) * fabs(before.p) + UNIT * fabs(move) + move_error + 2 * LEAST);
}

/** Case: the ISA, the kind of gradients (random ones with zeros among them). */
START_TEST(adamw_agrees_with_f64_step_by_step)
{
    enum { N = 77, N_STEPS = 5 };
    const input kind = (input)(_i % N_INPUTS);
    float *p = floats(N, 1, -1.0, 1.0), *m = sentinels(N), *v = sentinels(N);
    verdict judged = {0};

    if (!use_isa(_i / N_INPUTS))
        ck_skip("this CPU lacks the ISA");
    p[N] = SENTINEL;
    memset(m, 0, N * sizeof *m);
    memset(v, 0, N * sizeof *v);
    for (int step = 1; step <= N_STEPS; step++) {
        const pl_adamw_scalars s = {
            1e-2, 0.9, 0.95, 1e-8, 0.1, 1 - pow(0.9, step), 1 - pow(0.95, step), 0.3};
        float *g = inputs(kind, N, N, 10 + (uint64_t)step, 1e18), before[3][N];

        if (kind == RANDOM)
            g[3] = 0.0f; /* v stays 0: the denominator is eps */
        memcpy(before[0], p, sizeof before[0]);
        memcpy(before[1], m, sizeof before[1]);
        memcpy(before[2], v, sizeof before[2]);
        pl_adamw(N, &s, g, p, m, v);
        for (int i = 0; i < N; i++) /* one step from the f32 state before it */
            judge_update(&s, (double)g[i],
                         (state){(double)before[0][i], (double)before[1][i], (double)before[2][i]},
                         (state){(double)p[i], (double)m[i], (double)v[i]}, &judged);
    }
    ck_assert_int_eq(judged.n_wrong, 0);
    ck_assert(p[N] == SENTINEL && m[N] == SENTINEL && v[N] == SENTINEL);
}
END_TEST

START_TEST(a_bad_gradient_spoils_its_own_weight_only)
{
    enum { N = 40 };
    const pl_adamw_scalars s = {0.5, 0.9, 0.999, 1e-8, 0.1, 0.1, 0.001, 1.0};
    float p[N], m[N] = {0}, v[N] = {0}, g[N];

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    for (int i = 0; i < N; i++) {
        p[i] = 1.0f;
        g[i] = i % 3 == 0 ? 0x1p-140f : 1.0f;
    }
    g[7] = NAN;
    g[9] = INFINITY;
    pl_adamw(N, &s, g, p, m, v);
    for (int i = 0; i < N; i++)
        ck_assert(isfinite(p[i]) == (i != 7 && i != 9));
}
END_TEST

/** The first step of Adam moves by lr whatever the gradient's size: a hand-checkable case. */
START_TEST(adamw_moves_by_lr_at_first)
{
    const pl_adamw_scalars s = {0.5, 0.9, 0.999, 0.0, 0.0, 1 - 0.9, 1 - 0.999, 1.0};
    float p[2] = {1.0f, 1.0f}, m[2] = {0}, v[2] = {0};
    const float g[2] = {1e-6f, -1e6f};

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    pl_adamw(2, &s, g, p, m, v);
    ck_assert_double_le(fabs((double)p[0] - 0.5), gamma_n(16));
    ck_assert_double_le(fabs((double)p[1] - 1.5), gamma_n(16) * 1.5);
}
END_TEST

START_TEST(adamw_also_writes_the_rounded_weight)
{
    enum { N = 203 };
    const pl_adamw_scalars scalars = {1e-2, 0.9, 0.95, 1e-8, 0.1, 0.1, 0.05, 0.5};
    const float *g = floats(N, 1, -1.0, 1.0);
    float *p[2], *m[2], *v[2];
    both rounded = both_of(N, sentinels(N));

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    for (int i = 0; i < 2; i++) {
        p[i] = floats(N, 2, -1.0, 1.0);
        m[i] = floats(N, 3, -1.0, 1.0);
        v[i] = floats(N, 4, 0.0, 1.0);
        p[i][N] = m[i][N] = v[i][N] = SENTINEL;
    }
    pl_adamw(N, &scalars, g, p[0], m[0], v[0]);
    pl_adamw_bf16(N, &scalars, g, p[1], m[1], v[1], rounded.narrow);
    check_equal("p", N, p[1], p[0]);
    check_equal("m", N, m[1], m[0]);
    check_equal("v", N, v[1], v[0]);
    rounded.wide = p[0];
    check_rounded("weight", N, rounded);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("adamw");
    TCase *tests = tcase_create("adamw");

    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, adamw_agrees_with_f64_step_by_step, 0, PL_N_ISA * N_INPUTS);
    tcase_add_loop_test(tests, a_bad_gradient_spoils_its_own_weight_only, 0, PL_N_ISA);
    tcase_add_loop_test(tests, adamw_moves_by_lr_at_first, 0, PL_N_ISA);
    tcase_add_loop_test(tests, adamw_also_writes_the_rounded_weight, 0, PL_N_ISA);
    suite_add_tcase(suite, tests);
    return ck_main(suite);
}
