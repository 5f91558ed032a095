/* RMSNorm, on every ISA of this CPU, against f64 written out plainly. */
#include "config.h"

#include "kernels/norm.h"

#include "tests/check_main.h"
#include "tests/kernel_check.h"

#include <string.h>

/** What is normalised: values up to `spread`, or rows of every kind (tests/kernel_check.h) of at
 * most `spread`. */
typedef struct {
    int64_t R, D;
    double spread;
    int mixed;
} norm_shape;

static const norm_shape norm_shapes[] = {
    {1, 1, 1.0, 0},     {63, 72, 1.0, 0},    {5, 257, 1e3, 0},
    {97, 16, 1.0, 0},   {33, 130, 1e-6, 0},  {70, 512, 1.0, 0},
    {48, 130, 1e17, 1}, {14, 1100, 1e17, 1}, {35, 2113, 1.0, 0},
};
enum { N_NORM_SHAPES = sizeof norm_shapes / sizeof *norm_shapes };
static const float eps = 1e-5f;

static float *norm_input(const norm_shape *z, uint64_t seed)
{
    return z->mixed ? mixed_inputs(z->R * z->D, z->D, seed, z->spread)
                    : floats(z->R * z->D, seed, -z->spread, z->spread);
}

/** The row's rstd in f64. */
static double rstd_of(const float *x, int64_t D)
{
    double sum = 0.0;

    for (int64_t d = 0; d < D; d++)
        sum += (double)x[d] * (double)x[d];
    return 1.0 / sqrt(sum / (double)D + (double)eps);
}

/** Relative error of rstd: D/16 + 5 roundings in the sum of squares, halved by the root; then 4.
 * (What denormals lose is nothing beside eps.) */
static double rstd_error(int64_t D)
{
    return gamma_n(0.5 * ((double)D / 16 + 8) + 4);
}

START_TEST(rmsnorm_forward_agrees_with_f64)
{
    const norm_shape z = norm_shapes[_i % N_NORM_SHAPES];
    float *x = norm_input(&z, 1), *g = floats(z.D, 2, -2.0, 2.0);
    float *y = sentinels(z.R * z.D), *rstd = sentinels(z.R);
    verdict v = {0};

    if (!use_isa(_i / N_NORM_SHAPES))
        ck_skip("this CPU lacks the ISA");
    pl_rmsnorm_forward(z.R, z.D, eps, x, g, y, rstd);
    for (int64_t r = 0; r < z.R; r++) {
        const double want = rstd_of(x + r * z.D, z.D);

        judge(&v, (double)rstd[r], want, rstd_error(z.D) * want);
        for (int64_t d = 0; d < z.D; d++) {
            const double y_rd = (double)x[r * z.D + d] * want * (double)g[d];

            judge(&v, (double)y[r * z.D + d], y_rd,
                  (rstd_error(z.D) + gamma_n(3)) * fabs(y_rd) + LEAST * fabs((double)g[d]));
        }
    }
    ck_assert_int_eq(v.n_wrong, 0);
    ck_assert(y[z.R * z.D] == SENTINEL && rstd[z.R] == SENTINEL);
    pl_rmsnorm_forward(z.R, z.D, eps, x, g, x, rstd);
    ck_assert_mem_eq(x, y, (size_t)(z.R * z.D) * sizeof *x);
}
END_TEST

/** Squares that f32 does not hold: alone, or only summed. rstd may be subnormal: LEAST beside its
 * error, which x and g magnify. */
START_TEST(rows_whose_squares_overflow_are_normalised)
{
    enum { R = 9, D = 130 };
    const float sizes[R] = {0x1p61f, 0x1p63f,  0x1p64f,  0x1p80f,    0x1p100f,
                            1.0f,    0x1p120f, 0x1p126f, 0x1.fep127f};
    float *x = floats(R * D, 1, -1.0, 1.0), *g = floats(D, 2, -2.0, 2.0);
    float y[R * D], rstd[R];
    verdict v = {0};

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    for (int i = 0; i < R * D; i++)
        x[i] *= sizes[i / D];
    pl_rmsnorm_forward(R, D, eps, x, g, y, rstd);
    for (int r = 0; r < R; r++) {
        const double want = rstd_of(x + r * D, D);

        judge(&v, (double)rstd[r], want, rstd_error(D) * want);
        for (int d = 0; d < D; d++) {
            const double x_d = (double)x[r * D + d], y_rd = x_d * want * (double)g[d];

            judge(&v, (double)y[r * D + d], y_rd,
                  (rstd_error(D) + gamma_n(3)) * fabs(y_rd) +
                      LEAST * fabs((double)g[d]) * (1 + fabs(x_d)));
        }
    }
    ck_assert_int_eq(v.n_wrong, 0);
}
END_TEST

/** Compares a row of dx; adds its share to dg and to the bound of that. Besides relative errors,
 * each product may lose LEAST, which factors after it magnify. */
static void judge_dx_row(const norm_shape *z, int64_t r, const float *x, const float *g,
                         const float *dy, const float *base, const float *dx, double *dg,
                         double *dg_bound, verdict *v)
{
    const int64_t D = z->D, at = r * D;
    const double e = rstd_error(D), s = rstd_of(x + at, D);
    double sum = 0.0, sum_abs = 0.0;

    for (int64_t d = 0; d < D; d++) {
        const double dyx = (double)dy[at + d] * (double)x[at + d];

        sum += (double)g[d] * dyx;
        sum_abs += fabs((double)g[d] * dyx);
        dg[d] += dyx * s;
        dg_bound[d] += fabs(dyx * s) * (e + gamma_n(32 + (double)z->R / 32 + 4)) +
                       LEAST * (1 + fabs((double)dy[at + d]));
    }
    for (int64_t d = 0; d < D; d++) {
        const double x_d = (double)x[at + d], base_d = (double)base[at + d];
        const double direct = (double)dy[at + d] * (double)g[d] * s;
        const double pull = x_d * s * s * s / (double)D;
        const double lost = fabs(x_d) * (((3 * s + 1) * s + 1) * s + 1) + s + 3;

        judge(v, (double)dx[at + d], base_d + direct - pull * sum,
              fabs(direct) * (e + gamma_n(4)) +
                  fabs(pull) * sum_abs * (3 * e + gamma_n((double)D / 16 + 14)) +
                  2 * UNIT * fabs(base_d) + LEAST * lost);
    }
}

START_TEST(rmsnorm_backward_agrees_with_f64)
{
    const norm_shape z = norm_shapes[_i % N_NORM_SHAPES];
    float *x = norm_input(&z, 1), *g = floats(z.D, 2, -2.0, 2.0);
    float *dy = z.mixed ? norm_input(&z, 3) : floats(z.R * z.D, 3, -1.0, 1.0);
    float *base = floats(z.R * z.D, 4, -1.0, 1.0);
    float *dx = sentinels(z.R * z.D), *dg = sentinels(z.D), *rstd = sentinels(z.R);
    double *dg_want = keep(pl_alloc((size_t)z.D * 8)), *dg_bound = keep(pl_alloc((size_t)z.D * 8));
    verdict v = {0};

    if (!use_isa(_i / N_NORM_SHAPES))
        ck_skip("this CPU lacks the ISA");
    pl_rmsnorm_forward(z.R, z.D, eps, x, g, dx, rstd);
    pl_rmsnorm_backward(z.R, z.D, x, g, rstd, dy, base, dx, false, dg);
    for (int64_t r = 0; r < z.R; r++)
        judge_dx_row(&z, r, x, g, dy, base, dx, dg_want, dg_bound, &v);
    for (int64_t d = 0; d < z.D; d++)
        judge(&v, (double)dg[d], dg_want[d], dg_bound[d]);
    ck_assert_int_eq(v.n_wrong, 0);
    ck_assert(dx[z.R * z.D] == SENTINEL && dg[z.D] == SENTINEL);
}
END_TEST

/** An infinity (beside which rstd is 0) and a NaN, in a row's middle, in x or in dy. */
START_TEST(what_is_not_finite_stays_in_its_row)
{
    enum { R = 5, D = 130, BAD = 2 };
    const int in_dy = _i / N_NON_FINITE % 2;
    float *x = floats(R * D, 1, 1.0, 2.0), *g = floats(D, 2, 0.5, 2.0),
          *dy = floats(R * D, 3, 1, 2);
    float y[R * D], dx[R * D], rstd[R], dg[D];

    if (!use_isa(_i / N_NON_FINITE / 2))
        ck_skip("this CPU lacks the ISA");
    (in_dy ? dy : x)[BAD * D + 71] = non_finite(_i % N_NON_FINITE);
    pl_rmsnorm_forward(R, D, eps, x, g, y, rstd);
    pl_rmsnorm_backward(R, D, x, g, rstd, dy, NULL, dx, false, dg);
    for (int i = 0; i < R * D; i++) {
        ck_assert(i / D == BAD || (isfinite(y[i]) && isfinite(dx[i])));
        if (i / D == BAD && !in_dy && _i % N_NON_FINITE < 2)
            ck_assert(i % D == 71 ? isnan(y[i]) : y[i] == 0.0f);
        else if (i / D == BAD)
            ck_assert(!isfinite(dx[i]));
    }
    ck_assert(!isfinite(dg[71]));
}
END_TEST

/** What a norm and a loss of sum(dy * y) are made from, in f64. */
typedef struct {
    int64_t R, D;
    const double *x, *g, *dy;
} loss_inputs;

static double loss(const void *context)
{
    const loss_inputs *in = context;
    double loss = 0.0;

    for (int64_t r = 0; r < in->R; r++) {
        double sum = 0.0, value = 0.0;

        for (int64_t d = 0; d < in->D; d++) {
            const double x_d = in->x[r * in->D + d];

            sum += x_d * x_d;
            value += x_d * in->g[d] * in->dy[r * in->D + d];
        }
        loss += value / sqrt(sum / (double)in->D + (double)eps);
    }
    return loss;
}

START_TEST(rmsnorm_backward_agrees_with_differences)
{
    enum { R = 7, D = 18 };
    const double h = 1e-4;
    float *x = floats(R * D, 1, -1.0, 1.0), *g = floats(D, 2, -1.0, 1.0);
    float *dy = floats(R * D, 3, -1.0, 1.0), dx[R * D], dg[D], rstd[R];
    double *x_wide = widened(R * D, x), *g_wide = widened(D, g);
    const loss_inputs in = {R, D, x_wide, g_wide, widened(R * D, dy)};
    verdict v = {0};
    /* f32: chains of about D + 2 R roundings of terms that sum to less than 2 D; the difference:
     * h^2 times a third derivative below 100 (rstd < 3), and f64 rounding over h */
    const double bound = gamma_n(D + 2 * R) * 2 * D + 100 * h * h + 100 * 0x1p-53 / h;

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    pl_rmsnorm_forward(R, D, eps, x, g, dx, rstd);
    pl_rmsnorm_backward(R, D, x, g, rstd, dy, NULL, dx, false, dg);
    for (int64_t i = 0; i < R * D; i++)
        judge(&v, (double)dx[i], difference(loss, &in, x_wide + i, h), bound);
    for (int64_t i = 0; i < D; i++)
        judge(&v, (double)dg[i], difference(loss, &in, g_wide + i, h), bound);
    ck_assert_int_eq(v.n_wrong, 0);
}
END_TEST

START_TEST(rmsnorm_backward_may_overwrite_base_dy_or_x)
{
    enum { R = 67, D = 50 };
    float *x = floats(R * D, 1, -1.0, 1.0), *g = floats(D, 2, -1.0, 1.0);
    float *dy = floats(R * D, 3, -1.0, 1.0), *base = floats(R * D, 4, -1.0, 1.0);
    float *want = sentinels(R * D), *dg = sentinels(D), *dg_want = sentinels(D);
    float *rstd = sentinels(R), *apart[3] = {x, dy, base}, *in[3];

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    pl_rmsnorm_forward(R, D, eps, x, g, want, rstd);
    pl_rmsnorm_backward(R, D, x, g, rstd, dy, base, want, false, dg_want);
    for (int which = 0; which < 3; which++) {
        for (int i = 0; i < 3; i++) {
            in[i] = keep(pl_alloc(R * D * sizeof(float)));
            memcpy(in[i], apart[i], R * D * sizeof(float));
        }
        pl_rmsnorm_backward(R, D, in[0], g, rstd, in[1], in[2], in[which], false, dg);
        ck_assert_mem_eq(in[which], want, R * D * sizeof *want);
        ck_assert_mem_eq(dg, dg_want, D * sizeof *dg);
    }
    pl_rmsnorm_backward(0, D, x, g, rstd, dy, base, want, true, dg);
    ck_assert_mem_eq(dg, dg_want, D * sizeof *dg);
    pl_rmsnorm_backward(0, D, x, g, rstd, dy, base, want, false, dg);
    for (int d = 0; d < D; d++)
        ck_assert(dg[d] == 0.0f);
}
END_TEST

START_TEST(rmsnorm_backward_accumulates_dg)
{
    const float x[2] = {3.0f, -3.0f}, g[1] = {1.0f}, rstd[2] = {0.5f, 0.25f};
    const float dy[2] = {2.0f, 4.0f};
    float dx[2], dg[1] = {10.0f};

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    pl_rmsnorm_backward(2, 1, x, g, rstd, dy, NULL, dx, true, dg);
    ck_assert(dg[0] == 10.0f + 2.0f * 1.5f - 4.0f * 0.75f);
}
END_TEST

START_TEST(rmsnorm_rounds_once)
{
    static const int64_t shapes[][2] = {{1, 1}, {67, 72}, {5, 257}, {0, 8}};
    const int64_t R = shapes[_i / PL_N_ISA][0], D = shapes[_i / PL_N_ISA][1];
    const both x = values(R * D, 1, -2.0, 2.0, D > 200 ? 10 : 0), g = values(D, 2, -2.0, 2.0, 0);
    const both dy = values(R * D, 3, -1.0, 1.0, 0), base = values(R * D, 4, -1.0, 1.0, 0);
    const both y = both_of(R * D, sentinels(R * D));
    float *rstd[2] = {sentinels(R), sentinels(R)}, *dg[2] = {sentinels(D), sentinels(D)};

    if (!use_isa(_i % PL_N_ISA))
        ck_skip("this CPU lacks the ISA");
    pl_rmsnorm_forward(R, D, eps, x.wide, g.wide, y.wide, rstd[0]);
    pl_rmsnorm_forward_bf16(R, D, eps, x.narrow, g.narrow, y.narrow, rstd[1]);
    check_rounded("y", R * D, y);
    check_equal("rstd", R, rstd[1], rstd[0]);
    for (int with_base = 0; with_base < 2; with_base++) {
        pl_rmsnorm_backward(R, D, x.wide, g.wide, rstd[0], dy.wide, with_base ? base.wide : NULL,
                            y.wide, with_base, dg[0]);
        pl_rmsnorm_backward_bf16(R, D, x.narrow, g.narrow, rstd[1], dy.narrow,
                                 with_base ? base.narrow : NULL, y.narrow, with_base, dg[1]);
        check_rounded("dx", R * D, y);
        check_equal("dg", D, dg[1], dg[0]);
    }
    pl_rmsnorm_backward_bf16(R, D, x.narrow, g.narrow, rstd[1], dy.narrow, base.narrow, base.narrow,
                             true, dg[1]);
    ck_assert(R == 0 || memcmp(base.narrow, y.narrow, (size_t)(R * D) * 2) == 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("norm");
    TCase *tests = tcase_create("norm");

    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, rmsnorm_forward_agrees_with_f64, 0, PL_N_ISA * N_NORM_SHAPES);
    tcase_add_loop_test(tests, rows_whose_squares_overflow_are_normalised, 0, PL_N_ISA);
    tcase_add_loop_test(tests, rmsnorm_backward_agrees_with_f64, 0, PL_N_ISA * N_NORM_SHAPES);
    tcase_add_loop_test(tests, what_is_not_finite_stays_in_its_row, 0, PL_N_ISA * N_NON_FINITE * 2);
    tcase_add_loop_test(tests, rmsnorm_backward_agrees_with_differences, 0, PL_N_ISA);
    tcase_add_loop_test(tests, rmsnorm_backward_may_overwrite_base_dy_or_x, 0, PL_N_ISA);
    tcase_add_loop_test(tests, rmsnorm_backward_accumulates_dg, 0, PL_N_ISA);
    tcase_add_loop_test(tests, rmsnorm_rounds_once, 0, 4 * PL_N_ISA);
    suite_add_tcase(suite, tests);
    return ck_main(suite);
}
