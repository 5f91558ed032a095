/* What matmul computes, on every ISA against f64 and against integers: every transposition,
 * strides, blocks, what beta = 0 promises, adversarial inputs. (Which bits:
 * kernel_matmul_bits_test.c.) */
#include "config.h"

#include "tests/matmul_check.h"

#include "src/base/bf16.h"
#include "src/base/status.h"
#include "tests/check_main.h"

#include <stdlib.h>
#include <string.h>

/* odd ones, vectors, and some that are cut: along M, N, K, all */
static const product_shape shapes[] = {{1, 1, 1},       {63, 172, 72},   {257, 5, 18},
                                       {1, 300, 64},    {300, 1, 31},    {3001, 130, 400},
                                       {97, 6000, 301}, {97, 130, 9000}, {700, 800, 1100}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static int64_t n_calls;

static void count_call(void *data)
{
    ++*(int64_t *)data;
}

static const pl_progress progress = {count_call, &n_calls};

/** Case i: the ISA, the shape, both transpositions, accumulation. */
START_TEST(product_agrees_with_f64_within_its_bound)
{
    const product_shape z = shapes[_i / 8 % N_SHAPES];
    const pl_trans ta = _i & 1 ? PL_TRANS : PL_NO_TRANS, tb = _i & 2 ? PL_TRANS : PL_NO_TRANS;
    const bool accumulate = (_i & 4) != 0;
    const int64_t a_rows = ta ? z.K : z.M, lda = (ta ? z.M : z.K) + 3;
    const int64_t b_rows = tb ? z.N : z.K, ldb = (tb ? z.K : z.N) + 1, ldc = z.N + 2;
    float *a = floats(a_rows * lda, 1, -1.0, 1.0), *b = floats(b_rows * ldb, 2, -1.0, 1.0);
    float *c = floats(z.M * ldc, 3, -1.0, 1.0), *before = floats(z.M * ldc, 3, -1.0, 1.0);
    verdict v = {0};
    int64_t n_touched = 0;
    const int64_t step = 1 + z.M * z.N / 20000; /* of the elements that are checked */

    if (!use_isa(_i / 8 / N_SHAPES))
        ck_skip("this CPU lacks the ISA");
    for (int64_t i = 0; i < z.M * ldc && !accumulate; i++)
        if (i % ldc < z.N)
            c[i] = NAN; /* must not be read */
    pl_matmul(ta, tb, z.M, z.N, z.K, a, lda, b, ldb, accumulate, c, ldc, &progress);
    for (int64_t i = 0; i < z.M * z.N; i += step) {
        const int64_t m = i / z.N, n = i % z.N;
        double sum = accumulate ? (double)before[m * ldc + n] : 0.0, sum_abs = fabs(sum);

        for (int64_t k = 0; k < z.K; k++) {
            const double term = (double)(ta ? a[k * lda + m] : a[m * lda + k]) *
                                (double)(tb ? b[n * ldb + k] : b[k * ldb + n]);

            sum += term;
            sum_abs += fabs(term);
        }
        judge(&v, (double)c[m * ldc + n], sum, gamma_n((double)z.K + 1) * sum_abs);
    }
    for (int64_t i = 0; i < z.M * ldc; i++)
        n_touched += i % ldc >= z.N && c[i] != before[i];
    ck_assert_int_eq(v.n_wrong, 0);
    ck_assert_int_eq(n_touched, 0);
    pl_free(a);
    pl_free(b);
    pl_free(c);
    pl_free(before);
}
END_TEST

/** Every element of a product that is cut all three ways, on integers, where any order is exact. */
START_TEST(every_block_of_a_cut_product_is_exact)
{
    enum { M = 1031, N = 877, K = 1027 };
    float *a = floats(M * K, 1, 0.0, 1.0), *b = floats(K * N, 1, 0.0, 1.0), *c = sentinels(M * N);
    int64_t n_wrong = 0;

    for (int64_t i = 0; i < M * K; i++)
        a[i] = (float)(i * 7 % 13 - 6);
    for (int64_t i = 0; i < K * N; i++)
        b[i] = (float)(i * 5 % 11 - 5);
    n_calls = 0;
    pl_matmul(PL_NO_TRANS, PL_NO_TRANS, M, N, K, a, K, b, N, false, c, N, &progress);
    for (int64_t m = 0; m < M; m++)
        for (int64_t n = 0; n < N; n++) {
            int64_t want = 0;

            for (int64_t k = 0; k < K; k++)
                want += (int64_t)a[m * K + k] * (int64_t)b[k * N + n];
            n_wrong += c[m * N + n] != (float)want;
        }
    ck_assert_int_eq(n_wrong, 0);
    ck_assert_int_ge(n_calls, 2 * 2 * 2 - 1);
    pl_free(a);
    pl_free(b);
    pl_free(c);
}
END_TEST

START_TEST(progress_is_called_about_every_2e8_flops)
{
    enum { M = 2048, N = 1536, K = 512 };
    float *a = floats(M * K, 1, -1.0, 1.0), *b = floats(K * N, 2, -1.0, 1.0);
    float *c = sentinels(M * N);
    const double n_wanted = 2.0 * M * N * K / 2e8;

    n_calls = 0;
    pl_matmul(PL_NO_TRANS, PL_NO_TRANS, M, N, K, a, K, b, N, false, c, N, &progress);
    ck_assert_double_ge((double)n_calls, n_wanted / 2);
    ck_assert_double_le((double)n_calls, n_wanted * 2);
    pl_free(a);
    pl_free(b);
    pl_free(c);
}
END_TEST

START_TEST(empty_products_are_sums_of_nothing)
{
    float c[6] = {1.0f, NAN, SENTINEL, 3.0f, 4.0f, SENTINEL};

    pl_matmul(PL_NO_TRANS, PL_NO_TRANS, 0, 2, 3, NULL, 3, NULL, 2, false, c, 3, NULL);
    pl_matmul(PL_NO_TRANS, PL_TRANS, 2, 0, 3, NULL, 3, NULL, 3, false, c, 3, NULL);
    pl_matmul(PL_TRANS, PL_NO_TRANS, 2, 2, 0, NULL, 2, NULL, 2, true, c, 3, NULL);
    ck_assert(c[0] == 1.0f && isnan(c[1]) && c[3] == 3.0f && c[4] == 4.0f);
    pl_matmul(PL_NO_TRANS, PL_NO_TRANS, 2, 2, 0, NULL, 0, NULL, 2, false, c, 3, NULL);
    ck_assert(c[0] == 0.0f && c[1] == 0.0f && c[3] == 0.0f && c[4] == 0.0f);
    ck_assert(c[2] == SENTINEL && c[5] == SENTINEL);
}
END_TEST

/** Shapes up to 70, drawn, with every transposition, padding, accumulation, packing. */
START_TEST(integers_are_exact_in_any_shape_and_storage)
{
    enum { N_DRAWN = 1500, MOST = 70 };
    uint64_t state = 7;
    int64_t n_wrong = 0;

    if (!use_isa(_i / N_TYPES))
        ck_skip("this CPU lacks the ISA");
    for (int n = 0; n < N_DRAWN; n++) {
        product_case h = {.ta = n & 1 ? PL_TRANS : PL_NO_TRANS,
                          .tb = n & 2 ? PL_TRANS : PL_NO_TRANS,
                          .accumulate = (n & 4) != 0,
                          .packed = (n & 24) == 24,
                          .pad = n % 3};
        h.z = (product_shape){(int64_t)(uniform(&state) * MOST), (int64_t)(uniform(&state) * MOST),
                              (int64_t)(uniform(&state) * MOST)};
        if (n % 5 == 0)
            h.z.M = 1 + n / 5 % 9; /* skinny ones, both ways */
        if (n % 7 == 0)
            h.z.N = 1 + n / 7 % 9;
        float *a = integers(h.z.M * h.z.K, (uint64_t)n, 1);
        float *b = integers(h.z.K * h.z.N, (uint64_t)n + 5000, 2);
        void *c = product_multiply(h, _i % N_TYPES, a, b);
        const int64_t wrong = product_count_wrong(h, _i % N_TYPES, a, b, c);

        if (wrong > 0 && n_wrong == 0)
            fprintf(stderr, "draw %d: %lld x %lld x %lld\n", n, (long long)h.z.M, (long long)h.z.N,
                    (long long)h.z.K);
        n_wrong += wrong;
        pl_free(a);
        pl_free(b);
        pl_free(c);
    }
    ck_assert_int_eq(n_wrong, 0);
}
END_TEST

/** K is cut in three and c in several, so that sums wait in f32; most round. */
START_TEST(bf16_results_are_the_exact_sums_rounded_once)
{
    const product_case cases[] = {{.z = {37, 1100, 2501}, .pad = 1},
                                  {.z = {2100, 70, 1300}, .ta = PL_TRANS, .accumulate = true},
                                  {.z = {300, 5, 2100}, .accumulate = true},
                                  {.z = {600, 100, 1601}, .tb = PL_TRANS, .packed = true}};
    int64_t n_wrong = 0;

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    for (int i = 0; i < 4; i++) {
        const product_shape z = cases[i].z;
        float *a = integers(z.M * z.K, 11, 8), *b = integers(z.K * z.N, 12, 8);
        void *c = product_multiply(cases[i], N_TYPES - 1, a, b);

        n_wrong += product_count_wrong(cases[i], N_TYPES - 1, a, b, c);
        pl_free(a);
        pl_free(b);
        pl_free(c);
    }
    ck_assert_int_eq(n_wrong, 0);
}
END_TEST

/** Two roundings a pair and one for each block of K: fewer than K + 2 in all. */
START_TEST(bf16_agrees_with_f64_within_its_bound)
{
    const product_case h = {.z = {83, 131, 2300}, .accumulate = true};
    float *a = floats(h.z.M * h.z.K, 1, -1.0, 1.0), *b = floats(h.z.K * h.z.N, 2, -1.0, 1.0);
    verdict v = {0};

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    for (int64_t i = 0; i < h.z.M * h.z.K; i++)
        a[i] = pl_bf16_to_f32(pl_bf16_of_f32(a[i]));
    for (int64_t i = 0; i < h.z.K * h.z.N; i++)
        b[i] = pl_bf16_to_f32(pl_bf16_of_f32(b[i]));
    float *c = product_multiply(h, 1, a, b);

    for (int64_t i = 0; i < h.z.M; i++)
        for (int64_t j = 0; j < h.z.N; j++) {
            double sum = 2.0, sum_abs = 2.0;

            for (int64_t k = 0; k < h.z.K; k++) {
                const double term = (double)a[i * h.z.K + k] * (double)b[k * h.z.N + j];

                sum += term;
                sum_abs += fabs(term);
            }
            judge(&v, (double)c[i * (h.z.N + 3) + j], sum, gamma_n((double)h.z.K + 2) * sum_abs);
        }
    ck_assert_int_eq(v.n_wrong, 0);
    pl_free(c);
}
END_TEST

/** Padding is 0 and 0 times infinity NaN: neither may reach what is beside the infinity. */
START_TEST(an_infinity_stays_in_its_row_and_column)
{
    const pl_dtype c_dtype = types[_i % N_TYPES].c_dtype;
    int64_t n_wrong = 0;

    if (!use_isa(_i / N_TYPES))
        ck_skip("this CPU lacks the ISA");
    for (int n = 0; n < 64; n++) {
        const product_case h = {.z = {1 + n % 19, 3 + n * 5 % 67, 1 + n * 3 % 37},
                                .ta = n & 1 ? PL_TRANS : PL_NO_TRANS,
                                .tb = n & 2 ? PL_TRANS : PL_NO_TRANS,
                                .packed = n % 3 == 0};
        const product_shape z = h.z;
        const int64_t row = n % z.M, column = n % z.N;
        float *a = floats(z.M * z.K, 1, 1.0, 2.0), *b = floats(z.K * z.N, 2, 1.0, 2.0);

        a[row * z.K + z.K - 1] = INFINITY;
        b[(z.K - 1) * z.N + column] = INFINITY;
        void *c = product_multiply(h, _i % N_TYPES, a, b);

        for (int64_t i = 0; i < z.M; i++)
            for (int64_t j = 0; j < z.N; j++) {
                const float x = get(c, c_dtype, i * (z.N + 3) + j);

                n_wrong += i == row || j == column ? x != INFINITY : !isfinite(x);
            }
        pl_free(c);
    }
    ck_assert_int_eq(n_wrong, 0);
}
END_TEST

/** Rows of one kind each: denormal, of all sizes, all alike, one hot, near the largest that
 * products allow. Values are those of bf16, so that both types hold them. */
static float adversary(int64_t row, int64_t k, uint64_t *state)
{
    const double x = 2.0 * uniform(state) - 1.0;
    const double kinds[5] = {x * 0x1p-127, ldexp(x, (int)(k * 37 % 120) - 60), 0.3,
                             k == row ? -3.0 : 0.0, x * 0x1p60};

    return pl_bf16_to_f32(pl_bf16_of_f32((float)kinds[row % 5]));
}

/** K + 2 roundings; near zero each loses at most LEAST, or 2^-126 and every term with a denormal
 * where the instruction for pairs of bf16 takes those for 0. */
START_TEST(adversaries_agree_with_f64_within_their_bound)
{
    const product_case h = {.z = {23, 41, 1100}};
    const product_shape z = h.z;
    const int type = _i % N_TYPES;
    float *a = floats(z.M * z.K, 1, 0.0, 1.0), *b = floats(z.K * z.N, 2, 0.0, 1.0);
    uint64_t state = 5;
    verdict v = {0};

    if (!use_isa(_i / N_TYPES))
        ck_skip("this CPU lacks the ISA");
    const bool flushes = types[type].dtype == PL_BF16 && pl_isa_multiplies_bf16();
    const double half_step = types[type].c_dtype == PL_BF16 ? 0x1p-8 : 0.0;

    for (int64_t i = 0; i < z.M * z.K; i++)
        a[i] = adversary(i / z.K, i % z.K, &state);
    for (int64_t j = 0; j < z.N; j++)
        for (int64_t k = 0; k < z.K; k++)
            b[k * z.N + j] = adversary(j / 2, k, &state);
    const void *c = keep(product_multiply(h, type, a, b));

    for (int64_t i = 0; i < z.M; i++)
        for (int64_t j = 0; j < z.N; j++) {
            double sum = 0.0, sum_abs = 0.0;
            double lost = (double)(z.K + 2) * (flushes ? 2 * 0x1p-126 : LEAST);

            for (int64_t k = 0; k < z.K; k++) {
                const double x = (double)a[i * z.K + k], y = (double)b[k * z.N + j];

                sum += x * y;
                sum_abs += fabs(x * y);
                if (flushes && (fabs(x) < 0x1p-126 || fabs(y) < 0x1p-126))
                    lost += fabs(x * y);
            }
            const double error = gamma_n((double)z.K + 2) * sum_abs + lost;

            judge(&v, (double)get(c, types[type].c_dtype, i * (z.N + 3) + j), sum,
                  error + half_step * (fabs(sum) + error) + (half_step > 0.0 ? 0x1p-133 : 0.0));
        }
    ck_assert_int_eq(v.n_wrong, 0);
}
END_TEST

START_TEST(openblas_and_own_agree_on_integers)
{
    enum { M = 65, N = 130, K = 600 };
    float *a = integers(M * K, 1, 5), *b = integers(K * N, 2, 5);
    float *c[2] = {sentinels(M * N), sentinels(M * N)};

    for (int i = 0; i < 2; i++) {
        pl_matmul_set_backend(i == 0 ? PL_MATMUL_OWN : PL_MATMUL_OPENBLAS);
        pl_matmul(PL_NO_TRANS, PL_NO_TRANS, M, N, K, a, K, b, N, false, c[i], N, NULL);
    }
    ck_assert_mem_eq(c[0], c[1], M * N * sizeof(float));
    pl_free(a);
    pl_free(b);
}
END_TEST

START_TEST(whoever_multiplies_adds_a_residual_like_what_was_in_c)
{
    enum { M = 19, N = 37, K = 600 };
    float *a = floats(M * K, 1, -1.0, 1.0), *b = floats(K * N, 2, -1.0, 1.0);
    float *r = floats(M * (N + 2), 3, -9.0, 9.0);

    for (int choice = PL_MATMUL_AUTO; choice <= PL_MATMUL_OPENBLAS; choice++) {
        float *c = sentinels(M * N), *want = sentinels(M * N);

        for (int64_t m = 0; m < M; m++)
            memcpy(want + m * N, r + m * (N + 2), N * sizeof *want);
        pl_matmul_set_backend((pl_matmul_choice)choice);
        pl_matmul(PL_NO_TRANS, PL_NO_TRANS, M, N, K, a, K, b, N, true, want, N, NULL);
        pl_matmul_by_choice(&(pl_product){.M = M,
                                          .N = N,
                                          .K = K,
                                          .a = a,
                                          .b = b,
                                          .lda = K,
                                          .ldb = N,
                                          .ldc = N,
                                          .c = c,
                                          .residual = r,
                                          .ld_residual = N + 2,
                                          .count = 1},
                            NULL);
        ck_assert_mem_eq(c, want, M * N * sizeof *c);
        pl_free(c);
        pl_free(want);
    }
    pl_free(a);
    pl_free(b);
    pl_free(r);
}
END_TEST

START_TEST(avx512bf16_is_chosen_where_it_is_and_refused_elsewhere)
{
    const bool there = pl_isa_best() == PL_ISA_AVX512BF16;

    setenv("PURLIN_ISA", "avx512bf16", 1);
    ck_assert_int_eq(pl_isa_choose(), there ? PL_OK : PL_BAD_INPUT);
    if (there)
        ck_assert_int_eq(pl_isa_get(), PL_ISA_AVX512BF16);
    else
        ck_assert_ptr_nonnull(strstr(pl_status_message(), "PURLIN_ISA=avx512bf16"));
    ck_assert_int_le(pl_isa_vectors(), PL_ISA_AVX512);
}
END_TEST

START_TEST(the_backend_names_itself)
{
    pl_matmul_set_backend(PL_MATMUL_OPENBLAS);
    ck_assert_ptr_nonnull(strstr(pl_matmul_backend(), "OpenBLAS"));
    pl_matmul_set_backend(PL_MATMUL_OWN);
    ck_assert_ptr_nonnull(strstr(pl_matmul_backend(), pl_isa_name(pl_isa_get())));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("matmul");
    TCase *tests = tcase_create("matmul");

    pl_matmul_set_threads(1); /* the suite forks: a pool of threads would not survive */
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, product_agrees_with_f64_within_its_bound, 0,
                        PL_N_ISA * N_SHAPES * 8);
    tcase_add_test(tests, every_block_of_a_cut_product_is_exact);
    tcase_add_test(tests, progress_is_called_about_every_2e8_flops);
    tcase_add_test(tests, empty_products_are_sums_of_nothing);
    tcase_add_loop_test(tests, integers_are_exact_in_any_shape_and_storage, 0, PL_N_ISA * N_TYPES);
    tcase_add_loop_test(tests, bf16_results_are_the_exact_sums_rounded_once, 0, PL_N_ISA);
    tcase_add_loop_test(tests, bf16_agrees_with_f64_within_its_bound, 0, PL_N_ISA);
    tcase_add_loop_test(tests, an_infinity_stays_in_its_row_and_column, 0, PL_N_ISA * N_TYPES);
    tcase_add_loop_test(tests, adversaries_agree_with_f64_within_their_bound, 0,
                        PL_N_ISA * N_TYPES);
    tcase_add_test(tests, openblas_and_own_agree_on_integers);
    tcase_add_test(tests, whoever_multiplies_adds_a_residual_like_what_was_in_c);
    tcase_add_test(tests, avx512bf16_is_chosen_where_it_is_and_refused_elsewhere);
    tcase_add_test(tests, the_backend_names_itself);
    suite_add_tcase(suite, tests);
    return ck_main(suite);
}
