/* The plain loops and conversions, on every ISA of this CPU. */
#include "config.h"

#include "kernels/elementwise.h"

#include "tests/check_main.h"
#include "tests/kernel_check.h"

#include <string.h>

/** Bit for bit, any NaN for a NaN. */
static void check_same(const char *what, int64_t i, float got, float want)
{
    ck_assert_msg(memcmp(&got, &want, sizeof got) == 0 || (isnan(got) && isnan(want)),
                  "%s[%lld]: %.9g, want %.9g", what, (long long)i, (double)got, (double)want);
}

static const int64_t sizes[] = {0, 1, 3, 15, 16, 17, 1000};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

/** n values of one kind and, where there is room, what is not finite. */
static float *any_values(input kind, int64_t n, uint64_t seed)
{
    float *x = inputs(kind, n, 40, seed, 0x1p127);

    for (int i = 0; i < N_NON_FINITE && n > 100; i++)
        x[37 * (i + 1) + (int)seed % 2] = non_finite(i);
    return x;
}

/** Case: the ISA, the inputs, the size. Each result is rounded once: there is one right one. */
START_TEST(elementwise_loops_do_each_element_once)
{
    const int64_t n = sizes[_i % N_SIZES];
    const input kind = (input)(_i / N_SIZES % N_INPUTS);
    float *a = any_values(kind, n, 1), *b = any_values(kind, n, 2), *y = sentinels(n);

    if (!use_isa(_i / N_SIZES / N_INPUTS))
        ck_skip("this CPU lacks the ISA");
    pl_add(n, a, b, y);
    for (int64_t i = 0; i < n; i++)
        check_same("a + b", i, y[i], a[i] + b[i]);
    pl_add(n, y, b, y);
    for (int64_t i = 0; i < n; i++)
        check_same("a + b + b", i, y[i], (a[i] + b[i]) + b[i]);
    pl_scale(n, 0.3f, a, y);
    for (int64_t i = 0; i < n; i++)
        check_same("0.3 a", i, y[i], 0.3f * a[i]);
    pl_copy(n, b, y);
    ck_assert(n == 0 || memcmp(b, y, (size_t)n * sizeof *y) == 0);
    pl_zero(n, y);
    for (int64_t i = 0; i < n; i++)
        check_same("0", i, y[i], 0.0f);
    ck_assert(y[n] == SENTINEL);
}
END_TEST

/** Squares are exact; n / 16 additions and four more round, in f64. */
START_TEST(sum_of_squares_agrees_with_f64)
{
    enum { N = 1003 };
    const float *x = inputs((input)(_i % N_INPUTS), N, 40, 1, 0x1p127);
    long double want = 0;

    if (!use_isa(_i / N_INPUTS))
        ck_skip("this CPU lacks the ISA");
    for (int i = 0; i < N; i++)
        want += (long double)x[i] * (long double)x[i];
    ck_assert(fabsl((long double)pl_sum_of_squares(x, N) - want) <=
              (N / 16 + 1 + 4 + 1) * 0x1p-53L * want);
}
END_TEST

START_TEST(sum_of_squares_is_exact_for_integers)
{
    enum { N = 1003 };
    float x[N];
    double want = 0.0;

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    for (int i = 0; i < N; i++) {
        x[i] = (float)(i * 37 % 4099 - 2000) * 1024.0f;
        want += (double)x[i] * (double)x[i];
    }
    ck_assert(pl_sum_of_squares(x, N) == want);
    ck_assert(pl_sum_of_squares(NULL, 0) == 0.0);
    x[0] = 1e30f; /* its square overflows f32, not the sum */
    ck_assert(isfinite(pl_sum_of_squares(x, N)));
    for (int i = 0; i < N_NON_FINITE; i++) {
        x[N - 1] = non_finite(i);
        ck_assert(!isfinite(pl_sum_of_squares(x, N)));
    }
}
END_TEST

START_TEST(the_first_non_finite_is_found)
{
    enum { N = 10000 };
    static const float bad[] = {INFINITY, -INFINITY, NAN, -NAN};
    float *x = floats(N, 1, -1.0, 1.0);
    pl_bf16 *narrow = keep(pl_alloc(N * sizeof *narrow));

    x[1] = 0x1.fep127f;
    x[2] = -0x1.fep127f;
    x[3] = 0x1p-133f;
    for (int i = 0; i < N; i++)
        narrow[i] = pl_bf16_of_f32(x[i]);
    x[1] = 0x1.fffffep127f;
    x[3] = 0x1p-149f;
    ck_assert_int_eq(pl_first_non_finite(x, N), -1);
    ck_assert_int_eq(pl_first_non_finite_bf16(narrow, N), -1);
    ck_assert_int_eq(pl_first_non_finite(x, 0), -1);
    x[N - 1] = INFINITY;
    for (int i = N - 1; i >= 0; i -= 1111) {
        x[i] = bad[_i];
        narrow[i] = pl_bf16_of_f32(bad[_i]);
        ck_assert_int_eq(pl_first_non_finite(x, N), i);
        ck_assert_int_eq(pl_first_non_finite(x, i), -1);
        ck_assert_int_eq(pl_first_non_finite_bf16(narrow, N), i);
        ck_assert_int_eq(pl_first_non_finite_bf16(narrow, i), -1);
    }
}
END_TEST

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
    static const int64_t lengths[] = {0, 1, 31, 33, 1000};
    const int64_t n = lengths[_i / PL_N_ISA];
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

int main(void)
{
    Suite *suite = suite_create("elementwise");
    TCase *tests = tcase_create("elementwise");

    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, elementwise_loops_do_each_element_once, 0,
                        PL_N_ISA * N_INPUTS * N_SIZES);
    tcase_add_loop_test(tests, sum_of_squares_agrees_with_f64, 0, PL_N_ISA * N_INPUTS);
    tcase_add_loop_test(tests, sum_of_squares_is_exact_for_integers, 0, PL_N_ISA);
    tcase_add_loop_test(tests, the_first_non_finite_is_found, 0, 4);
    tcase_add_loop_test(tests, conversion_rounds_to_the_nearest_and_ties_to_even, 0, PL_N_ISA);
    tcase_add_loop_test(tests, every_bf16_widens_exactly_and_back, 0, PL_N_ISA);
    tcase_add_loop_test(tests, add_and_copy_round_once, 0, 5 * PL_N_ISA);
    suite_add_tcase(suite, tests);
    return ck_main(suite);
}
