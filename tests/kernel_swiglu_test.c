/* SwiGLU, on every ISA of this CPU, against f64 written out plainly. */
#include "config.h"

#include "kernels/swiglu.h"

#include "kernels/lanes.h"
#include "tests/check_main.h"
#include "tests/kernel_check.h"

#include <string.h>

static double silu(double x)
{
    return x / (1.0 + exp(-x));
}

/** n values of g: random, and the ends. */
static float *gates(int64_t n)
{
    static const float ends[] = {0.0f,    -0.0f,    88.0f, -88.0f, 104.0f, -104.0f,
                                 1000.0f, -1000.0f, 1e30f, 17.0f,  -17.0f};
    float *g = floats(n, 1, -20.0, 20.0);

    for (int64_t i = 0; i < 11 && i < n; i++)
        g[i] = ends[i];
    return g;
}

/** Case: the ISA, the kind of inputs, which of g, u, da is of that kind.
 *
 * exp (2 ulp; its argument is exact), 1 + e, the division, e * large: relative; one more for each
 * product, each of which may lose LEAST. Below e^-87 < 2^-125 the exponential is 0, and |x| e^x
 * with it. */
START_TEST(swiglu_agrees_with_f64)
{
    enum { N = 172 * 7 + 5, WIDTH = 43 };
    const input kind = (input)(_i / 3 % N_INPUTS);
    float *g = gates(N), *u = floats(N, 2, -2.0, 2.0), *da = floats(N, 3, -2.0, 2.0);
    float **const special[3] = {&g, &u, &da};
    float *a = sentinels(N), *dg = sentinels(N), *du = sentinels(N);
    const double e = gamma_n(EXP_UNITS + 8), unseen = 88 * 0x1p-125;
    verdict v = {0};

    if (!use_isa(_i / 3 / N_INPUTS))
        ck_skip("this CPU lacks the ISA");
    if (kind != RANDOM)
        *special[_i % 3] = inputs(kind, N, WIDTH, 4, _i % 3 == 0 ? 1e30 : 1e8);
    pl_swiglu_forward(N, g, u, a);
    pl_swiglu_backward(N, g, u, da, dg, du);
    for (int64_t i = 0; i < N; i++) {
        const double x = (double)g[i], u_i = (double)u[i], da_i = (double)da[i];
        const double sigma = 1.0 / (1.0 + exp(-x)), rest = 1.0 / (1.0 + exp(x));
        const double slope = sigma * (1.0 + x * rest);
        const double slope_error = e * sigma * (1.0 + fabs(x) * rest);

        judge(&v, (double)a[i], silu(x) * u_i,
              e * fabs(silu(x) * u_i) + (unseen + LEAST) * fabs(u_i));
        judge(&v, (double)dg[i], da_i * u_i * slope,
              fabs(da_i * u_i) * (slope_error + gamma_n(2) * fabs(slope) + 2 * unseen + LEAST) +
                  2 * LEAST);
        judge(&v, (double)du[i], da_i * silu(x),
              e * fabs(da_i * silu(x)) + (unseen + LEAST) * fabs(da_i));
    }
    ck_assert_int_eq(v.n_wrong, 0);
    ck_assert(a[N] == SENTINEL && dg[N] == SENTINEL && du[N] == SENTINEL);
}
END_TEST

/** In g, u or da. silu(-infinity) = -infinity * 0. */
START_TEST(what_is_not_finite_stays_in_its_element)
{
    enum { N = 700, BAD = 601 };
    const int which = _i / N_NON_FINITE % 3;
    float *in[3] = {floats(N, 1, 1.0, 4.0), floats(N, 2, 1.0, 2.0), floats(N, 3, 1.0, 2.0)};
    float a[N], dg[N], du[N];

    if (!use_isa(_i / N_NON_FINITE / 3))
        ck_skip("this CPU lacks the ISA");
    in[which][BAD] = non_finite(_i % N_NON_FINITE);
    pl_swiglu_forward(N, in[0], in[1], a);
    pl_swiglu_backward(N, in[0], in[1], in[2], dg, du);
    for (int i = 0; i < N; i++)
        ck_assert(i == BAD || (isfinite(a[i]) && isfinite(dg[i]) && isfinite(du[i])));
    ck_assert(isfinite(a[BAD]) == (which == 2));
    ck_assert(!isfinite(dg[BAD]));
    ck_assert(isfinite(du[BAD]) == (which == 1));
}
END_TEST

/** sum(da * silu(g) * u), in f64. */
typedef struct {
    int64_t n;
    const double *g, *u, *da;
} loss_inputs;

static double loss(const void *context)
{
    const loss_inputs *in = context;
    double sum = 0.0;

    for (int64_t i = 0; i < in->n; i++)
        sum += in->da[i] * silu(in->g[i]) * in->u[i];
    return sum;
}

START_TEST(swiglu_backward_agrees_with_differences)
{
    enum { N = 203 };
    const double h = 1e-4;
    float *g = floats(N, 1, -8.0, 8.0), *u = floats(N, 2, -1.0, 1.0), *da = floats(N, 3, -1.0, 1.0);
    float *dg = sentinels(N), *du = sentinels(N);
    double *g_wide = widened(N, g), *u_wide = widened(N, u);
    const loss_inputs in = {N, g_wide, u_wide, widened(N, da)};
    verdict v = {0};
    /* silu's third derivative stays below 1; N values below 8, added one by one */
    const double error = h * h / 6 + 8.0 * N * N * 0x1p-53 / h;

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    pl_swiglu_backward(N, g, u, da, dg, du);
    for (int64_t i = 0; i < N; i++) {
        judge(&v, (double)dg[i], difference(loss, &in, g_wide + i, h),
              gamma_n(EXP_UNITS + 10) * (1 + fabs((double)g[i])) + error);
        judge(&v, (double)du[i], difference(loss, &in, u_wide + i, h),
              gamma_n(EXP_UNITS + 10) * 8 + error);
    }
    ck_assert_int_eq(v.n_wrong, 0);
}
END_TEST

START_TEST(swiglu_backward_may_overwrite_its_inputs)
{
    enum { N = 101 };
    float *in[3] = {floats(N, 1, -4.0, 4.0), floats(N, 2, -1.0, 1.0), floats(N, 3, -1.0, 1.0)};
    float *dg = sentinels(N), *du = sentinels(N), *copy[3];

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    pl_swiglu_backward(N, in[0], in[1], in[2], dg, du);
    for (int to_dg = 0; to_dg < 3; to_dg++)
        for (int to_du = 0; to_du < 3; to_du++) {
            if (to_dg == to_du)
                continue;
            for (int i = 0; i < 3; i++) {
                copy[i] = keep(pl_alloc(N * sizeof(float)));
                memcpy(copy[i], in[i], N * sizeof(float));
            }
            pl_swiglu_backward(N, copy[0], copy[1], copy[2], copy[to_dg], copy[to_du]);
            ck_assert_mem_eq(copy[to_dg], dg, N * sizeof(float));
            ck_assert_mem_eq(copy[to_du], du, N * sizeof(float));
        }
    pl_swiglu_forward(0, NULL, NULL, NULL);
    pl_swiglu_backward(0, NULL, NULL, NULL, NULL, NULL);
}
END_TEST

START_TEST(swiglu_rounds_once)
{
    enum { N = 1237 };
    const both g = values(N, 1, -20.0, 20.0, 10), u = values(N, 2, -2.0, 2.0, 10);
    const both da = values(N, 3, -2.0, 2.0, 0), a = both_of(N, sentinels(N));
    const both b = both_of(N, sentinels(N));

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    if (!has_narrow_exp()) {
        pl_swiglu_forward(N, g.wide, u.wide, a.wide);
        pl_swiglu_forward_bf16(N, g.narrow, u.narrow, a.narrow);
        check_rounded("a", N, a);
    }
    pl_swiglu_backward(N, g.wide, u.wide, da.wide, a.wide, b.wide);
    pl_swiglu_backward_bf16(N, g.narrow, u.narrow, da.narrow, a.narrow, b.narrow);
    if (!has_narrow_exp()) {
        check_rounded("dg", N, a);
        check_rounded("du", N, b);
    }
    pl_swiglu_backward_bf16(N, g.narrow, u.narrow, da.narrow, da.narrow, g.narrow);
    ck_assert_mem_eq(da.narrow, a.narrow, N * sizeof *a.narrow);
    ck_assert_mem_eq(g.narrow, b.narrow, N * sizeof *b.narrow);
}
END_TEST

/* Every g that bf16 has; where it is finite, against f64: the exponential's error, relative, which
 * sigmoid and 1 - sigmoid take over whole at most, a few roundings, and that to bf16. */
START_TEST(every_gate_of_bf16_agrees_with_f64)
{
    enum { N = 1 << 16 };
    const both u = values(N, 2, 0.5, 2.0, 0), da = values(N, 3, -2.0, -0.5, 0);
    const both a = both_of(N, sentinels(N)), dg = both_of(N, sentinels(N));
    const both du = both_of(N, sentinels(N)), g = both_of(N, sentinels(N));
    const double e = PL_EXP_NARROW_ERROR + gamma_n(10);
    verdict v = {0};

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    for (int i = 0; i < N; i++)
        g.narrow[i] = (pl_bf16)i;
    pl_swiglu_forward_bf16(N, g.narrow, u.narrow, a.narrow);
    pl_swiglu_backward_bf16(N, g.narrow, u.narrow, da.narrow, dg.narrow, du.narrow);
    for (int i = 0; i < N; i++) {
        const double x = (double)pl_bf16_to_f32(g.narrow[i]);
        const double u_i = (double)u.wide[i], da_i = (double)da.wide[i];
        const double sigma = 1.0 / (1.0 + exp(-x)), rest = 1.0 / (1.0 + exp(x));
        const double tiny = 0x1p-125 * (1.0 + fabs(x)) * 4.0, bracket = 1.0 + fabs(x) * rest;

        if (isnan(x)) {
            ck_assert(isnan(pl_bf16_to_f32(a.narrow[i])) && isnan(pl_bf16_to_f32(dg.narrow[i])));
            ck_assert(isnan(pl_bf16_to_f32(du.narrow[i])));
        }
        if (!isfinite(x) || fabs(x) > 0x1p126)
            continue;
        judge_bf16(&v, a.narrow[i], x * sigma * u_i, e * fabs(x * sigma * u_i) + tiny);
        judge_bf16(&v, du.narrow[i], x * sigma * da_i, e * fabs(x * sigma * da_i) + tiny);
        judge_bf16(&v, dg.narrow[i], da_i * u_i * sigma * (1.0 + x * rest),
                   2 * e * fabs(da_i * u_i) * sigma * bracket + tiny);
    }
    ck_assert_int_eq(v.n_wrong, 0);
    ck_assert_int_gt(v.n_seen, 3 * 60000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("swiglu");
    TCase *tests = tcase_create("swiglu");

    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, swiglu_agrees_with_f64, 0, PL_N_ISA * N_INPUTS * 3);
    tcase_add_loop_test(tests, what_is_not_finite_stays_in_its_element, 0,
                        PL_N_ISA * N_NON_FINITE * 3);
    tcase_add_loop_test(tests, swiglu_backward_agrees_with_differences, 0, PL_N_ISA);
    tcase_add_loop_test(tests, swiglu_backward_may_overwrite_its_inputs, 0, PL_N_ISA);
    tcase_add_loop_test(tests, swiglu_rounds_once, 0, PL_N_ISA);
    tcase_add_loop_test(tests, every_gate_of_bf16_agrees_with_f64, 0, PL_N_ISA);
    suite_add_tcase(suite, tests);
    return ck_main(suite);
}
