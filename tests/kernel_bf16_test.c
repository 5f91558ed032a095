/* The bf16 kernels: each is the f32 kernel on widened inputs, every result rounded once. (The f32
 * kernels are held to f64 by their own suites; attention in bf16 is held there too.) */
#include "config.h"

#include "kernels/adamw.h"
#include "kernels/elementwise.h"
#include "kernels/embed.h"
#include "kernels/norm.h"
#include "kernels/rope.h"
#include "kernels/swiglu.h"
#include "kernels/xent.h"

#include "tests/check_main.h"
#include "tests/kernel_check.h"

#include <string.h>

/** An array in bf16 and the same values in f32. */
typedef struct {
    pl_bf16 *narrow;
    float *wide;
} both;

static both both_of(int64_t n, float *wide)
{
    both x = {keep(pl_alloc((size_t)(n + 1) * sizeof(pl_bf16))), wide};

    for (int64_t i = 0; i < n; i++) {
        x.narrow[i] = pl_bf16_of_f32(wide[i]);
        wide[i] = pl_bf16_to_f32(x.narrow[i]);
    }
    x.narrow[n] = 0x4641; /* a sentinel */
    return x;
}

/** n values in [low, high), the ends of bf16 first: zeros, subnormals, the largest, infinities,
 * a NaN. */
static both values(int64_t n, uint64_t seed, double low, double high, int n_ends)
{
    static const float ends[] = {0.0f,        -0.0f,        0x1p-133f, -0x1.fcp-127f, 0x1p-126f,
                                 0x1.fep127f, -0x1.fep127f, INFINITY,  -INFINITY,     NAN};
    float *x = floats(n, seed, low, high);

    for (int i = 0; i < n_ends && i < n; i++)
        x[i] = ends[(i + (int)seed) % (int)(sizeof ends / sizeof *ends)];
    return both_of(n, x);
}

/** Whether narrow[n] is wide[n] rounded, bit for bit (any NaN for a NaN), with its sentinel. */
static void check_rounded(const char *what, int64_t n, both x)
{
    for (int64_t i = 0; i < n; i++) {
        const pl_bf16 want = pl_bf16_of_f32(x.wide[i]);

        ck_assert_msg(x.narrow[i] == want ||
                          (isnan(x.wide[i]) && isnan(pl_bf16_to_f32(x.narrow[i]))),
                      "%s[%lld]: bits %04x, want %04x", what, (long long)i, x.narrow[i], want);
    }
    ck_assert_msg(x.narrow[n] == 0x4641, "%s: written beyond its end", what);
}

/** Statistics and weight gradients are f32 in both: equal bits. */
static void check_equal(const char *what, int64_t n, const float *of_bf16, const float *of_f32)
{
    for (int64_t i = 0; i <= n; i++)
        ck_assert_msg(memcmp(of_bf16 + i, of_f32 + i, sizeof *of_f32) == 0 ||
                          (isnan(of_bf16[i]) && isnan(of_f32[i])),
                      "%s[%lld]: %.9g, want %.9g", what, (long long)i, (double)of_bf16[i],
                      (double)of_f32[i]);
}

/** The bf16 nearest to x, by distance in f64; a tie goes to the even one. */
static pl_bf16 nearest(float x)
{
    const pl_bf16 sign = signbit(x) ? 0x8000 : 0;
    const double size = fabs((double)x);
    int low = 0, high = 0x7f80; /* magnitudes; infinity counts as the next power of two */

    while (high - low > 1) {
        const int middle = (low + high) / 2;

        if ((double)pl_bf16_to_f32((pl_bf16)middle) <= size)
            low = middle;
        else
            high = middle;
    }
    const double below = (double)pl_bf16_to_f32((pl_bf16)low);
    const double above = high == 0x7f80 ? 0x1p128 : (double)pl_bf16_to_f32((pl_bf16)high);

    if (isinf(x))
        return (pl_bf16)(sign | 0x7f80);
    if (size - below == above - size)
        return (pl_bf16)(sign | (low % 2 == 0 ? low : high));
    return (pl_bf16)(sign | (size - below < above - size ? low : high));
}

START_TEST(conversion_rounds_to_the_nearest_and_ties_to_even)
{
    enum { N = 4096, STRIDE = 20011 }; /* of the 2^32 floats, a quarter of them made ties */
    float x[N];
    pl_bf16 y[N];
    uint32_t bits = 0;

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    for (int64_t seen = 0; seen * STRIDE < INT64_C(1) << 32; seen += N) {
        for (int i = 0; i < N; i++, bits += STRIDE) {
            const uint32_t b = i % 4 == 0 ? (bits & 0xffff0000) | 0x8000 : bits;

            memcpy(x + i, &b, sizeof b);
        }
        pl_bf16_from_f32(N - 3, x, y);
        for (int i = 0; i < N - 3; i++)
            if (isnan(x[i]))
                ck_assert(isnan(pl_bf16_to_f32(y[i])) && (signbit(x[i]) != 0) == y[i] >> 15);
            else
                ck_assert_msg(y[i] == nearest(x[i]), "%a: %04x, want %04x", (double)x[i], y[i],
                              nearest(x[i]));
    }
}
END_TEST

START_TEST(every_bf16_widens_exactly_and_back)
{
    enum { N = 1 << 16 };
    pl_bf16 *x = keep(pl_alloc(N * sizeof *x)), *back = keep(pl_alloc(N * sizeof *back));
    float *y = sentinels(N);

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    for (int i = 0; i < N; i++)
        x[i] = (pl_bf16)i;
    pl_f32_from_bf16(N, x, y);
    pl_bf16_from_f32(N, y, back);
    for (int i = 0; i < N; i++) {
        const int exponent = i >> 7 & 0xff, fraction = i & 0x7f;
        const double size =
            exponent == 0 ? ldexp(fraction, -133) : ldexp(128 + fraction, exponent - 134);

        if (exponent != 0xff)
            ck_assert((double)y[i] == (i >> 15 ? -size : size));
        ck_assert(back[i] == x[i] || (isnan(y[i]) && back[i] == (x[i] | 0x40)));
    }
    ck_assert(y[N] == SENTINEL);
}
END_TEST

START_TEST(add_and_copy_round_once)
{
    static const int64_t sizes[] = {0, 1, 31, 33, 1000};
    const int64_t n = sizes[_i / PL_N_ISA];
    const both a = values(n, 1, -1.0, 1.0, 10), b = values(n, 4, -1.0, 1.0, 10);
    const both y = both_of(n, sentinels(n));

    if (!use_isa(_i % PL_N_ISA))
        ck_skip("this CPU lacks the ISA");
    pl_add(n, a.wide, b.wide, y.wide);
    pl_add_bf16(n, a.narrow, b.narrow, y.narrow);
    check_rounded("a + b", n, y);
    pl_copy_bf16(n, a.narrow, y.narrow);
    ck_assert(n == 0 || memcmp(y.narrow, a.narrow, (size_t)n * 2) == 0);
    pl_add_bf16(n, y.narrow, b.narrow, y.narrow);
    check_rounded("in place", n, y);
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
    pl_rmsnorm_forward(R, D, 1e-5f, x.wide, g.wide, y.wide, rstd[0]);
    pl_rmsnorm_forward_bf16(R, D, 1e-5f, x.narrow, g.narrow, y.narrow, rstd[1]);
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

START_TEST(rope_rounds_once)
{
    enum { R = 5, N = 3, H = 18, MOST = 64 };
    const int32_t positions[R] = {0, 1, 63, 2, 7};
    float *cosine = sentinels(MOST * H / 2), *sine = sentinels(MOST * H / 2);
    const both x = values(R * N * H, 1, -1.0, 1.0, 10),
               y = both_of(R * N * H, sentinels(R * N * H));

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    pl_rope_table(MOST, H, 10000.0, cosine, sine);
    pl_rope_forward(R, N, H, positions, cosine, sine, x.wide, y.wide);
    pl_rope_forward_bf16(R, N, H, positions, cosine, sine, x.narrow, y.narrow);
    check_rounded("y", R * N * H, y);
    pl_rope_backward(R, N, H, positions, cosine, sine, x.wide, y.wide);
    pl_rope_backward_bf16(R, N, H, positions, cosine, sine, x.narrow, y.narrow);
    check_rounded("dx", R * N * H, y);
    pl_rope_backward_bf16(R, N, H, positions, cosine, sine, x.narrow, x.narrow);
    ck_assert_mem_eq(x.narrow, y.narrow, R * N * H * sizeof *y.narrow);
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

START_TEST(embedding_gathers_bits_and_scatters_into_f32)
{
    enum { R = 6, V = 7, D = 37, BEGIN = 1 };
    const int32_t tokens[R] = {6, 0, 3, 3, 2, 6};
    const both e = values(V * D, 1, -1.0, 1.0, 10), x = both_of(R * D, sentinels(R * D));
    float *de[2] = {sentinels(V * D), sentinels(V * D)};

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    pl_embed_forward(R, V, D, BEGIN, tokens, e.wide, x.wide);
    pl_embed_forward_bf16(R, V, D, BEGIN, tokens, e.narrow, x.narrow);
    check_rounded("x", R * D, x);
    for (int pass = 0; pass < 2; pass++) {
        pl_embed_backward(R, V, D, BEGIN, tokens, x.wide, pass, de[0]);
        pl_embed_backward_bf16(R, V, D, BEGIN, tokens, x.narrow, pass, de[1]);
        check_equal("de", V * D, de[1], de[0]);
    }
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
    Suite *suite = suite_create("bf16");
    TCase *tests = tcase_create("bf16");

    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, conversion_rounds_to_the_nearest_and_ties_to_even, 0, PL_N_ISA);
    tcase_add_loop_test(tests, every_bf16_widens_exactly_and_back, 0, PL_N_ISA);
    tcase_add_loop_test(tests, add_and_copy_round_once, 0, 5 * PL_N_ISA);
    tcase_add_loop_test(tests, rmsnorm_rounds_once, 0, 4 * PL_N_ISA);
    tcase_add_loop_test(tests, rope_rounds_once, 0, PL_N_ISA);
    tcase_add_loop_test(tests, swiglu_rounds_once, 0, PL_N_ISA);
    tcase_add_loop_test(tests, embedding_gathers_bits_and_scatters_into_f32, 0, PL_N_ISA);
    tcase_add_loop_test(tests, cross_entropy_rounds_once, 0, PL_N_ISA);
    tcase_add_loop_test(tests, adamw_also_writes_the_rounded_weight, 0, PL_N_ISA);
    suite_add_tcase(suite, tests);
    return ck_main(suite);
}
