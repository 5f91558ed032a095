/* Which ISA runs, and exp on each ISA of this CPU, against f64. */
#include "config.h"

#include "kernels/avx512.h"
#include "kernels/lanes.h"

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

/** Whatever this CPU has. */
START_TEST(an_isa_that_the_cpu_lacks_is_refused_by_name)
{
    static const bool has[PL_N_ISA][PL_N_ISA] = {
        [PL_ISA_GENERIC] = {true},
        [PL_ISA_AVX2] = {true, true},
        [PL_ISA_AVX512] = {true, true, true},
        [PL_ISA_AVX512BF16] = {true, true, true, true},
        [PL_ISA_NEON] = {true, false, false, false, true},
        [PL_ISA_NEONBF16] = {true, false, false, false, true, true},
    };

    for (int best = 0; best < PL_N_ISA; best++)
        for (int isa = 0; isa < PL_N_ISA; isa++) {
            const char *wanted = pl_isa_name((pl_isa)isa);
            pl_isa found = PL_N_ISA;

            pl_status_clear();
            ck_assert_int_eq(pl_isa_find(wanted, (pl_isa)best, &found),
                             has[best][isa] ? PL_OK : PL_BAD_INPUT);
            ck_assert_int_eq(found, has[best][isa] ? isa : PL_N_ISA);
            if (has[best][isa])
                continue;
            const char *message = pl_status_message();

            ck_assert_ptr_nonnull(strstr(message, wanted));
            ck_assert_ptr_nonnull(strstr(message, pl_isa_name((pl_isa)best)));
        }
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

/* Checks that run for millions of floats abort by hand: each ck_assert that holds writes to a file. */

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
            if (!weight_is_right(x[i], y[i], &worst))
                ck_abort_msg("x %a: %a", (double)x[i], (double)y[i]);
    }
    ck_assert_double_le(worst, 2.0);
}
END_TEST

/* --- kernels/avx512.h --- */

#if defined(__x86_64__)
/** y[n] = e^x[n], or e^-x[n], by the exponential of `form`; or 1 / x[n]. n is whole blocks. */
PL_AVX512 static void by_blocks(int form, int negated, int reciprocal, int n, const float *x,
                                float *y)
{
    for (int i = 0; i < n; i += PL_BLOCK) {
        pl_block b = pl_block_load(PL_WIDE, x, i);

        PL_EACH (k)
            if (reciprocal)
                b.v[k] = pl_reciprocal(b.v[k]);
        if (!reciprocal && form == PL_WIDE)
            pl_exps_of(PL_WIDE, negated, b.v, b.v);
        else if (!reciprocal)
            pl_exps_of(PL_NARROW, negated, b.v, b.v);
        pl_block_store(PL_WIDE, false, y, i, b);
    }
}

PL_AVX512 static void through_a_block(int form, int n, const void *x, void *y)
{
    if (form == PL_WIDE)
        pl_block_store_part(PL_WIDE, y, 0, n, pl_block_load_part(PL_WIDE, x, 0, n));
    else if (form == PL_NARROW)
        pl_block_store_part(PL_NARROW, y, 0, n, pl_block_load_part(PL_NARROW, x, 0, n));
    else
        pl_block_store_part(PL_NARROW_BY_CPU, y, 0, n, pl_block_load_part(PL_NARROW, x, 0, n));
}

/** y[n] = e^x[n] 2^-origin of bf16 operands, n whole blocks. */
PL_AVX512 static void with_origin(float origin, int n, const float *x, float *y)
{
    for (int i = 0; i < n; i += PL_BLOCK) {
        pl_block b = pl_block_load(PL_WIDE, x, i);
        __m512 power[PL_VECTORS];

        pl_exps_in_parts(false, origin, b.v, power, b.v);
        PL_EACH (k)
            b.v[k] = _mm512_mul_ps(power[k], b.v[k]);
        pl_block_store(PL_WIDE, false, y, i, b);
    }
}

/** The j-th of: every bf16, every 997th float; 0 in place of what is not in [-most, most]. */
static float argument(int64_t j, float most)
{
    const int64_t n_bf16 = 1 << 16;
    const uint32_t bits = (uint32_t)(j < n_bf16 ? j << 16 : (j - n_bf16) * 997);
    float x;

    memcpy(&x, &bits, sizeof x);
    return fabsf(x) <= most ? x : 0.0f;
}

/** The largest |y / e^x - 1| beyond `per_x` |x|, x negated or not. */
static double worst_exponential(int form, int negated, float most, double per_x)
{
    enum { N = 4096 };
    const int64_t n = (1 << 16) + (INT64_C(1) << 32) / 997;
    float x[N], y[N];
    double worst = 0;

    for (int64_t j = 0; j < n; j += N) {
        for (int i = 0; i < N; i++)
            x[i] = argument(j + i, most);
        by_blocks(form, negated, 0, N, x, y);
        for (int i = 0; i < N; i++) {
            const double want = exp(negated ? -(double)x[i] : (double)x[i]);

            worst = fmax(worst, fabs((double)y[i] / want - 1) - per_x * fabs((double)x[i]));
            if (x[i] == 0.0f && y[i] != 1.0f)
                ck_abort_msg("e^0 is %a", (double)y[i]);
        }
    }
    return worst;
}

#define NARROW_LIMIT 0x1.51cp-20 /* 2^-19.6, and for each |x|: */
#define NARROW_PER_X 0x1.84p-29

START_TEST(exponentials_of_blocks_keep_their_bounds)
{
    const int negated = _i;

    if (!use_isa(PL_ISA_AVX512))
        ck_skip("this CPU lacks AVX-512");
    ck_assert_double_le(worst_exponential(PL_WIDE, negated, 87.0f, 0), 4 * UNIT); /* 2 ulp */
    ck_assert_double_le(worst_exponential(PL_NARROW, negated, 86.5f, NARROW_PER_X), NARROW_LIMIT);
}
END_TEST

/** Case: the origin. Arguments are those near enough below it, and a little above. */
START_TEST(an_origin_divides_exponentials_by_a_power)
{
    enum { N = 4096, ROUNDS = 64 };
    static const float origins[] = {-369.3125f, -100.0f, -0.0625f, 37.5f, 369.3125f, 512.0f};
    const double at = (double)origins[_i] * 0x1.62e42fefa39efp-1;
    float x[N], y[N];

    if (!use_isa(PL_ISA_AVX512))
        ck_skip("this CPU lacks AVX-512");
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N; i++)
            x[i] = (float)(at - 86.4 * (round * N + i) / (ROUNDS * N) + 1e-3);
        with_origin(origins[_i], N, x, y);
        for (int i = 0; i < N; i++)
            if (!(fabs((double)y[i] / exp((double)x[i] - at) - 1) <=
                  NARROW_LIMIT + NARROW_PER_X * fabs((double)x[i])))
                ck_abort_msg("x %a: %a", (double)x[i], (double)y[i]);
    }
}
END_TEST

START_TEST(exponentials_below_their_range_are_tiny)
{
    enum { N = 4096 };
    float x[N], y[N];

    if (!use_isa(PL_ISA_AVX512))
        ck_skip("this CPU lacks AVX-512");
    for (int i = 0; i < N; i++)
        x[i] = -87.0f + 0.5f * (float)i / N;
    by_blocks(PL_NARROW, 0, 0, N, x, y);
    for (int i = 0; i < N; i++)
        ck_assert(y[i] >= 0.0f && y[i] < 0x1p-124f);
}
END_TEST

START_TEST(reciprocals_are_within_an_ulp)
{
    enum { N = 4096, STRIDE = 997 };
    float x[N], y[N];

    if (!use_isa(PL_ISA_AVX512))
        ck_skip("this CPU lacks AVX-512");
    for (uint64_t bits = UINT64_C(1) << 23; bits < UINT64_C(253) << 23;
         bits += (uint64_t)N * STRIDE) {
        for (int i = 0; i < N; i++) {
            const uint32_t b = (uint32_t)bits + (uint32_t)i * STRIDE;

            memcpy(x + i, &b, sizeof b);
            if (!(x[i] <= 0x1p126f))
                x[i] = 1.0f;
        }
        by_blocks(PL_WIDE, 0, 1, N, x, y);
        for (int i = 0; i < N; i++) {
            const double want = 1 / (double)x[i];

            if (!(fabs((double)y[i] - want) <= ldexp(1.0, ilogb(want) - 23)))
                ck_abort_msg("1 / %a: %a", (double)x[i], (double)y[i]);
        }
    }
}
END_TEST

PL_AVX512 static void round_block(const float *x, pl_bf16 *y)
{
    pl_block b;

    for (int k = 0; k < PL_VECTORS; k++) /* as pl_block_load of bf16 lays them */
        for (int l = 0; l < 16; l++)
            b.v[k][l] = x[32 * (k / 2) + 2 * l + k % 2];
    pl_block_store(PL_NARROW_EXACT, false, y, 0, b);
}

/** Every 997th float, subnormals too, alone among others as well. NaNs are not looked at. */
START_TEST(the_cpu_rounds_exactly_where_it_is_asked_to)
{
    enum { STRIDE = 997 };
    float x[PL_BLOCK];
    pl_bf16 y[PL_BLOCK];

    if (!use_isa(PL_ISA_AVX512BF16))
        ck_skip("this CPU lacks AVX512-BF16");
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += (uint64_t)PL_BLOCK * STRIDE) {
        for (int i = 0; i < PL_BLOCK; i++) {
            const uint32_t b = (uint32_t)bits + (uint32_t)i * STRIDE;

            memcpy(x + i, &b, sizeof b);
        }
        if (bits % 3 == 0) /* one subnormal among others */
            x[bits % PL_BLOCK] = 0x1.8p-130f;
        round_block(x, y);
        for (int i = 0; i < PL_BLOCK; i++)
            if (!isnan(x[i]) && y[i] != pl_bf16_of_f32(x[i]))
                ck_abort_msg("%a: 0x%x", (double)x[i], (unsigned)y[i]);
    }
}
END_TEST

/** Each count of elements is read and written whole, in order, and nothing beyond. */
START_TEST(blocks_hold_what_was_loaded)
{
    pl_bf16 x[PL_BLOCK], y[PL_BLOCK + 1];
    float wide[PL_BLOCK], out[PL_BLOCK + 1];

    if (!use_isa(_i == PL_NARROW_BY_CPU ? PL_ISA_AVX512BF16 : PL_ISA_AVX512))
        ck_skip("this CPU lacks the ISA");
    for (int i = 0; i < PL_BLOCK; i++) {
        wide[i] = 1.0f + 0x1p-7f * (float)i;
        x[i] = pl_bf16_of_f32(wide[i]);
    }
    for (int n = 0; n <= PL_BLOCK; n++) {
        memset(y, 0, sizeof y);
        memset(out, 0, sizeof out);
        through_a_block(_i, n, _i == PL_WIDE ? (const void *)wide : x,
                        _i == PL_WIDE ? (void *)out : y);
        for (int i = 0; i <= PL_BLOCK; i++)
            ck_assert((_i == PL_WIDE ? out[i] : pl_bf16_to_f32(y[i])) == (i < n ? wide[i] : 0.0f));
    }
}
END_TEST

PL_AVX512 static float sum_of_block(int form, const void *x)
{
    if (form == PL_WIDE)
        return pl_block_sum(PL_WIDE, pl_block_load(PL_WIDE, x, 0).v);
    return pl_block_sum(PL_NARROW, pl_block_load(PL_NARROW, x, 0).v);
}

/** Bit for bit, of sizes that make every order round otherwise. */
START_TEST(a_block_is_summed_by_halves)
{
    float *sizes = floats(PL_BLOCK, 1, -2.0, 2.0), sum[PL_BLOCK];

    if (!use_isa(PL_ISA_AVX512))
        ck_skip("this CPU lacks AVX-512");
    for (int i = 0; i < PL_BLOCK; i++)
        sizes[i] = ldexpf(sizes[i], i * 37 % 31);
    const both x = both_of(PL_BLOCK, sizes);

    memcpy(sum, x.wide, sizeof sum);
    for (int half = PL_BLOCK / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            sum[i] += sum[i + half];
    ck_assert(sum_of_block(_i, _i == PL_WIDE ? (const void *)x.wide : x.narrow) == sum[0]);
}
END_TEST
#endif

START_TEST(exp_is_within_two_ulp)
{
    enum { N = 4096, STRIDE = 997 }; /* of the 2^32 floats */
    float x[N], y[N];
    double worst = 0.0;
    uint32_t bits = 0;
    int wrapped = 0, n_wrong = 0;

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
                n_wrong += !isnan(y[i]);
            } else if (want > (double)0x1.fffffep127f) {
                n_wrong += want >= 0x1.00001p128 && !isinf(y[i]);
            } else {
                const double ulp = fmax(ldexp(1.0, ilogb(fmax(want, 0x1p-149)) - 23), 0x1p-149);

                worst = fmax(worst, fabs((double)y[i] - want) / ulp);
            }
        }
    }
    ck_assert_int_eq(n_wrong, 0);
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

int main(void)
{
    Suite *suite = suite_create("lanes");
    TCase *tests = tcase_create("lanes");

    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, an_unknown_isa_is_refused_by_name);
    tcase_add_test(tests, an_isa_that_the_cpu_lacks_is_refused_by_name);
    tcase_add_test(tests, the_environment_chooses_the_isa);
    tcase_add_loop_test(tests, exp_of_weights_is_within_two_ulp_and_0_below_its_range, 0, PL_N_ISA);
#if defined(__x86_64__)
    tcase_add_loop_test(tests, exponentials_of_blocks_keep_their_bounds, 0, 2);
    tcase_add_loop_test(tests, an_origin_divides_exponentials_by_a_power, 0, 6);
    tcase_add_test(tests, exponentials_below_their_range_are_tiny);
    tcase_add_test(tests, reciprocals_are_within_an_ulp);
    tcase_add_test(tests, the_cpu_rounds_exactly_where_it_is_asked_to);
    tcase_add_loop_test(tests, blocks_hold_what_was_loaded, PL_WIDE, PL_NARROW_BY_CPU + 1);
    tcase_add_loop_test(tests, a_block_is_summed_by_halves, PL_WIDE, PL_NARROW + 1);
#endif
    tcase_add_loop_test(tests, exp_is_within_two_ulp, 0, PL_N_ISA);
    tcase_add_loop_test(tests, exp_of_the_ends_is_exact, 0, PL_N_ISA);
    suite_add_tcase(suite, tests);
    return ck_main(suite);
}
