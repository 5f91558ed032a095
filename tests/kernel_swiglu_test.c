/* SwiGLU, on every ISA of this CPU, against f64 written out plainly. */
#include "config.h"

#include "kernels/swiglu.h"

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

START_TEST(swiglu_agrees_with_f64)
{
    enum { N = 172 * 7 + 5 };
    float *g = gates(N), *u = floats(N, 2, -2.0, 2.0), *da = floats(N, 3, -2.0, 2.0);
    float *a = sentinels(N), *dg = sentinels(N), *du = sentinels(N);
    /* exp (2 ulp), 1 + e, the division, e * large: relative; one more for each product. exp's
     * argument is exact. Below e^-87 < 2^-125 the exponential is 0; |u| and |da| are at most 2 */
    const double e = gamma_n(EXP_UNITS + 8);
    verdict v = {0};

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    pl_swiglu_forward(N, g, u, a);
    pl_swiglu_backward(N, g, u, da, dg, du);
    for (int64_t i = 0; i < N; i++) {
        const double x = (double)g[i], tiny = 0x1p-125 * (1.0 + fabs(x)) * 4.0;
        const double sigma = 1.0 / (1.0 + exp(-x)), rest = 1.0 / (1.0 + exp(x));
        const double slope = sigma * (1.0 + x * rest);
        const double slope_error = e * sigma * (1.0 + fabs(x) * rest);

        judge(&v, (double)a[i], silu(x) * (double)u[i], e * fabs(silu(x) * (double)u[i]) + tiny);
        judge(&v, (double)dg[i], (double)da[i] * (double)u[i] * slope,
              fabs((double)da[i] * (double)u[i]) * (slope_error + gamma_n(2) * fabs(slope)) + tiny);
        judge(&v, (double)du[i], (double)da[i] * silu(x), e * fabs((double)da[i] * silu(x)) + tiny);
    }
    ck_assert_int_eq(v.n_wrong, 0);
    ck_assert(a[N] == SENTINEL && dg[N] == SENTINEL && du[N] == SENTINEL);
}
END_TEST

START_TEST(swiglu_backward_agrees_with_differences)
{
    enum { N = 203 };
    const double h = 1e-4;
    float *g = floats(N, 1, -8.0, 8.0), *u = floats(N, 2, -1.0, 1.0), *da = floats(N, 3, -1.0, 1.0);
    float *dg = sentinels(N), *du = sentinels(N);
    verdict v = {0};

    pl_swiglu_backward(N, g, u, da, dg, du);
    for (int64_t i = 0; i < N; i++) {
        const double x = (double)g[i], w = (double)da[i] * (double)u[i];
        /* silu''' stays below 1; values below 10 */
        const double error = h * h / 6 + 10 * 0x1p-53 / h;

        judge(&v, (double)dg[i], w * (silu(x + h) - silu(x - h)) / (2 * h),
              gamma_n(EXP_UNITS + 10) * (1 + fabs(x)) + error);
        judge(&v, (double)du[i], (double)da[i] * silu(x), gamma_n(EXP_UNITS + 10) * 8);
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
    pl_swiglu_forward(N, g.wide, u.wide, a.wide);
    pl_swiglu_forward_bf16(N, g.narrow, u.narrow, a.narrow);
    check_rounded("a", N, a);
    pl_swiglu_backward(N, g.wide, u.wide, da.wide, a.wide, b.wide);
    pl_swiglu_backward_bf16(N, g.narrow, u.narrow, da.narrow, a.narrow, b.narrow);
    check_rounded("dg", N, a);
    check_rounded("du", N, b);
    pl_swiglu_backward_bf16(N, g.narrow, u.narrow, da.narrow, da.narrow, g.narrow);
    ck_assert_mem_eq(da.narrow, a.narrow, N * sizeof *a.narrow);
    ck_assert_mem_eq(g.narrow, b.narrow, N * sizeof *b.narrow);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("swiglu");
    TCase *tests = tcase_create("swiglu");

    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, swiglu_agrees_with_f64, 0, PL_N_ISA);
    tcase_add_test(tests, swiglu_backward_agrees_with_differences);
    tcase_add_loop_test(tests, swiglu_backward_may_overwrite_its_inputs, 0, PL_N_ISA);
    tcase_add_loop_test(tests, swiglu_rounds_once, 0, PL_N_ISA);
    suite_add_tcase(suite, tests);
    return ck_main(suite);
}
