/* Every kernel but attention, on every ISA of this CPU, against f64 written out plainly. */
#include "config.h"

#include "kernels/adamw.h"
#include "kernels/elementwise.h"
#include "kernels/embed.h"
#include "kernels/lanes.h"
#include "kernels/norm.h"
#include "kernels/rope.h"
#include "kernels/swiglu.h"
#include "kernels/xent.h"

#include "src/base/status.h"
#include "tests/check_main.h"
#include "tests/kernel_check.h"

#include <stdlib.h>
#include <string.h>

/* --- isa --- */

START_TEST(an_unknown_isa_is_refused_by_name)
{
    setenv("PURLIN_ISA", "mmx", 1);
    ck_assert_int_eq(pl_isa_choose(), PL_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(pl_status_message(), "PURLIN_ISA=mmx"));
    ck_assert_ptr_nonnull(strstr(pl_status_message(), "avx2"));
}
END_TEST

START_TEST(the_environment_chooses_the_isa)
{
    setenv("PURLIN_ISA", "generic", 1);
    ck_assert_int_eq(pl_isa_choose(), PL_OK);
    ck_assert_int_eq(pl_isa_get(), PL_ISA_GENERIC);
    setenv("PURLIN_ISA", "", 1);
    ck_assert_int_eq(pl_isa_choose(), PL_OK);
    ck_assert_int_eq(pl_isa_get(), pl_isa_best());
}
END_TEST

/* --- exp: compiled here for each ISA, as the kernels do it --- */

PL_INLINE void exponentials_body(int weights, int64_t n, const float *x, float *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = weights ? pl_exp_weight(x[i]) : pl_exp(x[i]);
}

static void exponentials_generic(int weights, int64_t n, const float *x, float *y)
{
    exponentials_body(weights, n, x, y);
}

PL_AVX2 static void exponentials_avx2(int weights, int64_t n, const float *x, float *y)
{
    exponentials_body(weights, n, x, y);
}

PL_AVX512 static void exponentials_avx512(int weights, int64_t n, const float *x, float *y)
{
    exponentials_body(weights, n, x, y);
}

static void exponentials(int weights, int64_t n, const float *x, float *y)
{
    static void (*const run[PL_N_ISA])(int, int64_t, const float *, float *) = {
        exponentials_generic, exponentials_avx2, exponentials_avx512};

    run[pl_isa_vectors()](weights, n, x, y);
}

/** Whether y is e^x as pl_exp_weight promises; *worst: its error in ulp where x is in its range. */
static int weight_is_right(float x, float y, double *worst)
{
    const double want = exp((double)x);
    const double ulp = fmax(ldexp(1.0, ilogb(fmax(want, 0x1p-149)) - 23), 0x1p-149);

    if (isnan(x))
        return isnan(y);
    if (x > 88.0f)
        return 1;
    if (x < -87.0f)
        return y == 0.0f;
    *worst = fmax(*worst, fabs((double)y - want) / ulp);
    return 1;
}

START_TEST(exp_of_weights_is_within_two_ulp_and_0_below_its_range)
{
    enum { N = 4096, STRIDE = 997 };
    float x[N], y[N];
    double worst = 0.0;

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += (uint64_t)N * STRIDE) {
        for (int i = 0; i < N; i++) {
            const uint32_t b = (uint32_t)bits + (uint32_t)i * STRIDE;

            memcpy(x + i, &b, sizeof b);
        }
        exponentials(1, N, x, y);
        for (int i = 0; i < N; i++)
            ck_assert_msg(weight_is_right(x[i], y[i], &worst), "x %a: %a", (double)x[i],
                          (double)y[i]);
    }
    ck_assert_double_le(worst, 2.0);
}
END_TEST

START_TEST(exp_is_within_two_ulp)
{
    enum { N = 4096, STRIDE = 997 }; /* of the 2^32 floats */
    float x[N], y[N];
    double worst = 0.0;
    uint32_t bits = 0;
    int wrapped = 0;

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    while (!wrapped) {
        for (int i = 0; i < N; i++) {
            memcpy(x + i, &bits, sizeof bits);
            wrapped |= bits + STRIDE < bits;
            bits += STRIDE;
        }
        exponentials(0, N, x, y);
        for (int i = 0; i < N; i++) {
            const double want = exp((double)x[i]);

            if (isnan(x[i])) {
                ck_assert(isnan(y[i]));
            } else if (want > (double)0x1.fffffep127f) {
                ck_assert(want < 0x1.00001p128 || isinf(y[i]));
            } else {
                const double ulp = fmax(ldexp(1.0, ilogb(fmax(want, 0x1p-149)) - 23), 0x1p-149);

                worst = fmax(worst, fabs((double)y[i] - want) / ulp);
            }
        }
    }
    ck_assert_double_le(worst, 2.0);
}
END_TEST

START_TEST(exp_of_the_ends_is_exact)
{
    const float x[] = {0.0f, -0.0f, -INFINITY, INFINITY, -200.0f, -1e30f, 1e30f};
    const float want[] = {1.0f, 1.0f, 0.0f, INFINITY, 0.0f, 0.0f, INFINITY};
    float y[7];

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    exponentials(0, 7, x, y);
    ck_assert_mem_eq(y, want, sizeof want);
}
END_TEST

/* --- norm --- */

typedef struct {
    int64_t R, D;
    double spread;
} norm_shape;

static const norm_shape norm_shapes[] = {{1, 1, 1.0},   {63, 72, 1.0},   {5, 257, 1e3},
                                         {97, 16, 1.0}, {33, 130, 1e-6}, {70, 512, 1.0}};
enum { N_NORM_SHAPES = 6 };

/** The row's rstd in f64. */
static double rstd_of(const float *x, int64_t D, double eps)
{
    double sum = 0.0;

    for (int64_t d = 0; d < D; d++)
        sum += (double)x[d] * (double)x[d];
    return 1.0 / sqrt(sum / (double)D + eps);
}

/** Relative error of rstd: D/16 + 5 roundings in the sum of squares, halved by the root; then 4. */
static double rstd_error(int64_t D)
{
    return gamma_n(0.5 * ((double)D / 16 + 8) + 4);
}

START_TEST(rmsnorm_forward_agrees_with_f64)
{
    const norm_shape z = norm_shapes[_i % N_NORM_SHAPES];
    const float eps = 1e-5f;
    float *x = floats(z.R * z.D, 1, -z.spread, z.spread), *g = floats(z.D, 2, -2.0, 2.0);
    float *y = sentinels(z.R * z.D), *rstd = sentinels(z.R);
    verdict v = {0};

    if (!use_isa(_i / N_NORM_SHAPES))
        ck_skip("this CPU lacks the ISA");
    pl_rmsnorm_forward(z.R, z.D, eps, x, g, y, rstd);
    for (int64_t r = 0; r < z.R; r++) {
        const double want = rstd_of(x + r * z.D, z.D, (double)eps);

        judge(&v, (double)rstd[r], want, rstd_error(z.D) * want);
        for (int64_t d = 0; d < z.D; d++) {
            const double y_rd = (double)x[r * z.D + d] * want * (double)g[d];

            judge(&v, (double)y[r * z.D + d], y_rd, (rstd_error(z.D) + gamma_n(3)) * fabs(y_rd));
        }
    }
    ck_assert_int_eq(v.n_wrong, 0);
    ck_assert(y[z.R * z.D] == SENTINEL && rstd[z.R] == SENTINEL);
    pl_rmsnorm_forward(z.R, z.D, eps, x, g, x, rstd);
    ck_assert_mem_eq(x, y, (size_t)(z.R * z.D) * sizeof *x);
}
END_TEST

START_TEST(rmsnorm_backward_agrees_with_f64)
{
    const norm_shape z = norm_shapes[_i % N_NORM_SHAPES];
    const double eps = (double)1e-5f, inverse_D = 1.0 / (double)z.D, e = rstd_error(z.D);
    float *x = floats(z.R * z.D, 1, -z.spread, z.spread), *g = floats(z.D, 2, -2.0, 2.0);
    float *dy = floats(z.R * z.D, 3, -1.0, 1.0), *base = floats(z.R * z.D, 4, -1.0, 1.0);
    float *dx = sentinels(z.R * z.D), *dg = sentinels(z.D), *rstd = sentinels(z.R);
    double *dg_want = keep(pl_alloc((size_t)z.D * 8)), *dg_bound = keep(pl_alloc((size_t)z.D * 8));
    verdict v = {0};

    if (!use_isa(_i / N_NORM_SHAPES))
        ck_skip("this CPU lacks the ISA");
    pl_rmsnorm_forward(z.R, z.D, (float)eps, x, g, dx, rstd);
    pl_rmsnorm_backward(z.R, z.D, x, g, rstd, dy, base, dx, false, dg);
    for (int64_t r = 0; r < z.R; r++) {
        const double s = rstd_of(x + r * z.D, z.D, eps);
        double sum = 0.0, sum_abs = 0.0;

        for (int64_t d = 0; d < z.D; d++) {
            const double term = (double)g[d] * (double)dy[r * z.D + d] * (double)x[r * z.D + d];

            sum += term;
            sum_abs += fabs(term);
            dg_want[d] += term / (double)g[d] * s;
            dg_bound[d] += fabs(term / (double)g[d] * s) * (e + gamma_n(32 + (double)z.R / 32 + 4));
        }
        for (int64_t d = 0; d < z.D; d++) {
            const int64_t i = r * z.D + d;
            const double direct = (double)dy[i] * (double)g[d] * s;
            const double pull = (double)x[i] * s * s * s * inverse_D;
            const double want = (double)base[i] + direct - pull * sum;
            const double bound = fabs(direct) * (e + gamma_n(4)) +
                                 fabs(pull) * sum_abs * (3 * e + gamma_n((double)z.D / 16 + 14)) +
                                 2 * UNIT * fabs((double)base[i]);

            judge(&v, (double)dx[i], want, bound);
        }
    }
    for (int64_t d = 0; d < z.D; d++)
        judge(&v, (double)dg[d], dg_want[d], dg_bound[d]);
    ck_assert_int_eq(v.n_wrong, 0);
    ck_assert(dx[z.R * z.D] == SENTINEL && dg[z.D] == SENTINEL);
}
END_TEST

/** Rows of zeros, of one value, one hot, of subnormals, of large numbers; with an infinity and a
 * NaN, which stay in their rows. */
START_TEST(rmsnorm_takes_rows_of_any_kind)
{
    enum { R = 7, D = 130 };
    static const float filling[R] = {0.0f, 3.0f, 0.0f, 0x1p-140f, 1e18f, 1.0f, 1.0f};
    static const float special[R] = {0.0f, 3.0f, 5.0f, -0x1p-149f, -1e18f, INFINITY, NAN};
    const double e = rstd_error(D);
    float x[R * D], y[R * D], rstd[R], *g = floats(D, 2, 0.5, 2.0);
    verdict v = {0};

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    for (int i = 0; i < R * D; i++)
        x[i] = i % D == 71 ? special[i / D] : filling[i / D];
    pl_rmsnorm_forward(R, D, 1e-5f, x, g, y, rstd);
    for (int i = 0; i < 5 * D; i++) {
        const double s = rstd_of(x + i / D * D, D, (double)1e-5f);
        const double want = (double)x[i] * s * (double)g[i % D];

        judge(&v, (double)y[i], want, (e + gamma_n(3)) * fabs(want) + LEAST * (double)g[i % D]);
    }
    for (int i = 5 * D; i < R * D; i++) /* rstd is 0 beside an infinity */
        ck_assert(i < 6 * D && i % D != 71 ? y[i] == 0.0f : isnan(y[i]));
    ck_assert_int_eq(v.n_wrong, 0);
}
END_TEST

/** sum(dy * y) in f64 with x[moved] or g[moved] shifted. */
static double norm_loss(int64_t R, int64_t D, double eps, const float *x, const float *g,
                        const float *dy, int64_t moved_x, int64_t moved_g, double h)
{
    double loss = 0.0;

    for (int64_t r = 0; r < R; r++) {
        double sum = 0.0, value = 0.0;

        for (int64_t d = 0; d < D; d++) {
            const double x_d = (double)x[r * D + d] + (r * D + d == moved_x ? h : 0.0);

            sum += x_d * x_d;
            value += x_d * ((double)g[d] + (d == moved_g ? h : 0.0)) * (double)dy[r * D + d];
        }
        loss += value / sqrt(sum / (double)D + eps);
    }
    return loss;
}

START_TEST(rmsnorm_backward_agrees_with_differences)
{
    enum { R = 7, D = 18 };
    const double eps = (double)1e-5f, h = 1e-4;
    float *x = floats(R * D, 1, -1.0, 1.0), *g = floats(D, 2, -1.0, 1.0);
    float *dy = floats(R * D, 3, -1.0, 1.0), dx[R * D], dg[D], rstd[R];
    verdict v = {0};
    /* f32: chains of about D + 2 R roundings of terms that sum to less than 2 D; the difference:
     * h^2 times a third derivative below 100 (rstd < 3), and f64 rounding over h */
    const double bound = gamma_n(D + 2 * R) * 2 * D + 100 * h * h + 100 * 0x1p-53 / h;

    pl_rmsnorm_forward(R, D, (float)eps, x, g, dx, rstd);
    pl_rmsnorm_backward(R, D, x, g, rstd, dy, NULL, dx, false, dg);
    for (int64_t i = 0; i < R * D; i++)
        judge(
            &v, (double)dx[i],
            (norm_loss(R, D, eps, x, g, dy, i, -1, h) - norm_loss(R, D, eps, x, g, dy, i, -1, -h)) /
                (2 * h),
            bound);
    for (int64_t i = 0; i < D; i++)
        judge(
            &v, (double)dg[i],
            (norm_loss(R, D, eps, x, g, dy, -1, i, h) - norm_loss(R, D, eps, x, g, dy, -1, i, -h)) /
                (2 * h),
            bound);
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
    pl_rmsnorm_forward(R, D, 1e-5f, x, g, want, rstd);
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

    pl_rmsnorm_backward(2, 1, x, g, rstd, dy, NULL, dx, true, dg);
    ck_assert(dg[0] == 10.0f + 2.0f * 1.5f - 4.0f * 0.75f);
}
END_TEST

/* --- rope --- */

START_TEST(rope_turns_pairs_half_a_head_apart)
{
    enum { R = 5, N = 3, H = 18, MOST = 4096 };
    const int32_t positions[R] = {0, 1, 63, 4095, 7};
    float *cosine = sentinels(MOST * H / 2), *sine = sentinels(MOST * H / 2);
    float *x = floats(R * N * H, 1, -1.0, 1.0), *y = sentinels(R * N * H);
    verdict v = {0};

    pl_rope_table(MOST, H, 10000.0, cosine, sine);
    pl_rope_forward(R, N, H, positions, cosine, sine, x, y);
    for (int i = 0; i < R * N * H; i++) {
        const int h = i % H, pair = h % (H / 2), other = h < H / 2 ? i + H / 2 : i - H / 2;
        const double angle = positions[i / (N * H)] * pow(10000.0, -2.0 * pair / H);
        const double sign = h < H / 2 ? -1.0 : 1.0;
        const double a = (double)x[i] * cos(angle), b = sign * (double)x[other] * sin(angle);

        judge(&v, (double)y[i], a + b, gamma_n(3) * (fabs(a) + fabs(b)));
    }
    ck_assert_int_eq(v.n_wrong, 0);
    ck_assert(y[R * N * H] == SENTINEL);
    pl_rope_forward(R, N, H, positions, cosine, sine, x, x);
    ck_assert_mem_eq(x, y, R * N * H * sizeof *x);
}
END_TEST

/** <dy, rope(x)> = <rope_backward(dy), x> for all x: checked on unit vectors scaled by small
 * integers, through f64 sums of f32 results. */
START_TEST(rope_backward_is_the_transpose)
{
    enum { R = 2, N = 1, H = 8, MOST = 64 };
    const int32_t positions[R] = {5, 63};
    float cosine[MOST * H / 2], sine[MOST * H / 2], dx[R * N * H], y[R * N * H];
    float *dy = floats(R * N * H, 2, -1.0, 1.0);
    verdict v = {0};

    pl_rope_table(MOST, H, 500.0, cosine, sine);
    pl_rope_backward(R, N, H, positions, cosine, sine, dy, dx);
    for (int j = 0; j < R * N * H; j++) {
        float unit[R * N * H] = {0};
        double sum = 0.0, sum_abs = 0.0;

        unit[j] = 1.0f;
        pl_rope_forward(R, N, H, positions, cosine, sine, unit, y);
        for (int i = 0; i < R * N * H; i++) {
            sum += (double)dy[i] * (double)y[i];
            sum_abs += fabs((double)dy[i] * (double)y[i]);
        }
        judge(&v, (double)dx[j], sum, gamma_n(2) * sum_abs);
    }
    ck_assert_int_eq(v.n_wrong, 0);
}
END_TEST

/* --- swiglu --- */

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

/* --- embed --- */

START_TEST(embedding_shards_sum_to_the_whole)
{
    enum { R = 6, V = 7, D = 5 };
    const int32_t tokens[R] = {6, 0, 3, 3, 2, 6};
    float *e = floats(V * D, 1, -1.0, 1.0), x[R * D], low[R * D], high[R * D];

    pl_embed_forward(R, V, D, 0, tokens, e, x);
    pl_embed_forward(R, 3, D, 0, tokens, e, low);
    pl_embed_forward(R, 4, D, 3, tokens, e + 3 * D, high);
    for (int i = 0; i < R * D; i++) {
        ck_assert(x[i] == e[tokens[i / D] * D + i % D]);
        ck_assert(low[i] + high[i] == x[i] && (low[i] == 0.0f || high[i] == 0.0f));
    }
    pl_embed_forward(R, 0, D, 3, tokens, NULL, x);
    for (int i = 0; i < R * D; i++)
        ck_assert(x[i] == 0.0f);
    pl_embed_forward(R, V, 0, 0, tokens, e, x);
    pl_embed_forward(0, V, D, 0, NULL, e, x);
}
END_TEST

START_TEST(embedding_gradient_sums_the_rows_of_a_token)
{
    enum { R = 6, V = 4, D = 3, BEGIN = 3 };
    const int32_t tokens[R] = {6, 0, 3, 3, 2, 6};
    float dx[R * D], de[V * D + 1];

    for (int i = 0; i < R * D; i++)
        dx[i] = (float)(i * i); /* integers: sums are exact */
    for (int i = 0; i <= V * D; i++)
        de[i] = SENTINEL;
    pl_embed_backward(R, V, D, BEGIN, tokens, dx, false, de);
    for (int pass = 1; pass <= 2; pass++) {
        for (int i = 0; i < V * D; i++) {
            float want = 0.0f;

            for (int r = 0; r < R; r++)
                want += tokens[r] == BEGIN + i / D ? dx[r * D + i % D] : 0.0f;
            ck_assert(de[i] == (float)pass * want);
        }
        pl_embed_backward(R, V, D, BEGIN, tokens, dx, true, de);
    }
    ck_assert(de[V * D] == SENTINEL);
    pl_embed_backward(0, V, D, BEGIN, NULL, NULL, false, de);
    for (int i = 0; i < V * D; i++)
        ck_assert(de[i] == 0.0f);
    pl_embed_backward(R, 0, D, BEGIN, tokens, dx, false, NULL);
}
END_TEST

/* --- xent --- */

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

/* --- adamw --- */

START_TEST(adamw_agrees_with_f64_step_by_step)
{
    enum { N = 77, N_STEPS = 5 };
    const double b1 = 0.9, b2 = 0.95, lr = 1e-2, wd = 0.1, eps = 1e-8, clip = 0.3;
    float *p = floats(N, 1, -1.0, 1.0), *m = sentinels(N), *v = sentinels(N);
    verdict judged = {0};

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    memset(m, 0, N * sizeof *m);
    memset(v, 0, N * sizeof *v);
    for (int step = 1; step <= N_STEPS; step++) {
        const double bias1 = 1 - pow(b1, step), bias2 = 1 - pow(b2, step);
        const pl_adamw_scalars s = {lr, b1, b2, eps, wd, bias1, bias2, clip};
        float *g = floats(N, 10 + (uint64_t)step, -1.0, 1.0), before[3][N];

        g[3] = 0.0f; /* v stays 0: the denominator is eps */
        memcpy(before[0], p, sizeof before[0]);
        memcpy(before[1], m, sizeof before[1]);
        memcpy(before[2], v, sizeof before[2]);
        pl_adamw(N, &s, g, p, m, v);
        for (int i = 0; i < N; i++) { /* one step from the f32 state before it */
            const double g_i = clip * (double)g[i], m_0 = (double)before[1][i];
            const double v_0 = (double)before[2][i], p_0 = (double)before[0][i];
            const double m_1 = b1 * m_0 + (1 - b1) * g_i, v_1 = b2 * v_0 + (1 - b2) * g_i * g_i;
            const double move = lr / bias1 * m_1 / (sqrt(v_1) / sqrt(bias2) + eps);
            const double m_error = gamma_n(5) * (fabs(m_0) + (1 - b1) * (fabs(g_i) + fabs(m_0)));
            const double move_error =
                v_1 == 0.0
                    ? 0.0
                    : fabs(move) * gamma_n(14) + m_error * lr / bias1 / (sqrt(v_1 / bias2) + eps);

            judge(&judged, (double)m[i], m_1, m_error);
            judge(&judged, (double)v[i], v_1, gamma_n(6) * v_1);
            judge(&judged, (double)p[i], (1 - lr * wd) * p_0 - move,
                  gamma_n(4) * fabs(p_0) + UNIT * fabs(move) + move_error);
        }
    }
    ck_assert_int_eq(judged.n_wrong, 0);
    ck_assert(p[N] == 0.0f);
    ck_assert(m[N] == SENTINEL && v[N] == SENTINEL);
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

    pl_adamw(2, &s, g, p, m, v);
    ck_assert_double_le(fabs((double)p[0] - 0.5), gamma_n(16));
    ck_assert_double_le(fabs((double)p[1] - 1.5), gamma_n(16) * 1.5);
}
END_TEST

/* --- elementwise --- */

START_TEST(elementwise_loops_do_each_element_once)
{
    static const int64_t sizes[] = {0, 1, 3, 15, 16, 17, 1000};
    const int64_t n = sizes[_i];
    float *a = floats(n, 1, -1.0, 1.0), *b = floats(n, 2, -1.0, 1.0), *y = sentinels(n);

    pl_add(n, a, b, y);
    for (int64_t i = 0; i < n; i++)
        ck_assert(y[i] == a[i] + b[i]);
    pl_add(n, y, b, y);
    for (int64_t i = 0; i < n; i++)
        ck_assert(y[i] == (a[i] + b[i]) + b[i]);
    pl_scale(n, 0.3f, a, y);
    for (int64_t i = 0; i < n; i++)
        ck_assert(y[i] == 0.3f * a[i]);
    pl_copy(n, b, y);
    ck_assert(n == 0 || memcmp(b, y, (size_t)n * sizeof *y) == 0);
    pl_zero(n, y);
    for (int64_t i = 0; i < n; i++)
        ck_assert(y[i] == 0.0f);
    ck_assert(y[n] == SENTINEL);
}
END_TEST

START_TEST(sum_of_squares_is_exact_for_integers)
{
    enum { N = 1003 };
    float x[N];
    double want = 0.0;

    for (int i = 0; i < N; i++) {
        x[i] = (float)(i * 37 % 4099 - 2000) * 1024.0f;
        want += (double)x[i] * (double)x[i];
    }
    ck_assert(pl_sum_of_squares(x, N) == want);
    ck_assert(pl_sum_of_squares(NULL, 0) == 0.0);
    x[0] = 1e30f; /* its square overflows f32, not the sum */
    ck_assert(isfinite(pl_sum_of_squares(x, N)));
}
END_TEST

START_TEST(the_first_non_finite_is_found)
{
    enum { N = 10000 };
    static const float bad[] = {INFINITY, -INFINITY, NAN, -NAN};
    float *x = floats(N, 1, -1.0, 1.0);

    x[1] = 0x1.fffffep127f;
    x[2] = -0x1.fffffep127f;
    x[3] = 0x1p-149f;
    ck_assert_int_eq(pl_first_non_finite(x, N), -1);
    ck_assert_int_eq(pl_first_non_finite(x, 0), -1);
    x[N - 1] = INFINITY;
    for (int i = N - 1; i >= 0; i -= 1111) {
        x[i] = bad[_i];
        ck_assert_int_eq(pl_first_non_finite(x, N), i);
        ck_assert_int_eq(pl_first_non_finite(x, i), -1);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernels");
    TCase *tests = tcase_create("kernels");

    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, an_unknown_isa_is_refused_by_name);
    tcase_add_test(tests, the_environment_chooses_the_isa);
    tcase_add_loop_test(tests, exp_is_within_two_ulp, 0, PL_N_ISA);
    tcase_add_loop_test(tests, exp_of_weights_is_within_two_ulp_and_0_below_its_range, 0, PL_N_ISA);
    tcase_add_loop_test(tests, exp_of_the_ends_is_exact, 0, PL_N_ISA);
    tcase_add_loop_test(tests, rmsnorm_forward_agrees_with_f64, 0, PL_N_ISA * N_NORM_SHAPES);
    tcase_add_loop_test(tests, rmsnorm_takes_rows_of_any_kind, 0, PL_N_ISA);
    tcase_add_loop_test(tests, rmsnorm_backward_agrees_with_f64, 0, PL_N_ISA * N_NORM_SHAPES);
    tcase_add_test(tests, rmsnorm_backward_agrees_with_differences);
    tcase_add_loop_test(tests, rmsnorm_backward_may_overwrite_base_dy_or_x, 0, PL_N_ISA);
    tcase_add_test(tests, rmsnorm_backward_accumulates_dg);
    tcase_add_test(tests, rope_turns_pairs_half_a_head_apart);
    tcase_add_test(tests, rope_backward_is_the_transpose);
    tcase_add_loop_test(tests, swiglu_agrees_with_f64, 0, PL_N_ISA);
    tcase_add_test(tests, swiglu_backward_agrees_with_differences);
    tcase_add_loop_test(tests, swiglu_backward_may_overwrite_its_inputs, 0, PL_N_ISA);
    tcase_add_test(tests, embedding_shards_sum_to_the_whole);
    tcase_add_test(tests, embedding_gradient_sums_the_rows_of_a_token);
    tcase_add_loop_test(tests, sharded_cross_entropy_agrees_with_f64, 0, PL_N_ISA * 4);
    tcase_add_test(tests, cross_entropy_gradient_agrees_with_differences);
    tcase_add_test(tests, the_loss_is_summed_in_f64_and_rounded_once);
    tcase_add_test(tests, empty_vocabulary_shards_add_nothing);
    tcase_add_loop_test(tests, a_nan_logit_makes_the_loss_nan, 0, PL_N_ISA * 40);
    tcase_add_loop_test(tests, adamw_agrees_with_f64_step_by_step, 0, PL_N_ISA);
    tcase_add_loop_test(tests, a_bad_gradient_spoils_its_own_weight_only, 0, PL_N_ISA);
    tcase_add_test(tests, adamw_moves_by_lr_at_first);
    tcase_add_loop_test(tests, elementwise_loops_do_each_element_once, 0, 7);
    tcase_add_test(tests, sum_of_squares_is_exact_for_integers);
    tcase_add_loop_test(tests, the_first_non_finite_is_found, 0, 4);
    suite_add_tcase(suite, tests);
    return ck_main(suite);
}
