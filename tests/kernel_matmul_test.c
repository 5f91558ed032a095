/* Matmul against f64: every transposition, strides, blocks, and what beta = 0 promises. */
#include "config.h"

#include "kernels/matmul.h"

#include "tests/check_main.h"
#include "tests/kernel_check.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    int64_t M, N, K;
} shape;

/* odd ones, vectors, and some that are cut: along M, N, K, all */
static const shape shapes[] = {{1, 1, 1},       {63, 172, 72},   {257, 5, 18},
                               {1, 300, 64},    {300, 1, 31},    {3001, 130, 400},
                               {97, 6000, 301}, {97, 130, 9000}, {700, 800, 1100}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static int64_t n_calls;

static void count_call(void *data)
{
    ++*(int64_t *)data;
}

static const pl_progress progress = {count_call, &n_calls};

/** Case i: the shape, both transpositions, accumulation. */
START_TEST(product_agrees_with_f64_within_its_bound)
{
    const shape z = shapes[_i / 8];
    const pl_trans ta = _i & 1 ? PL_TRANS : PL_NO_TRANS, tb = _i & 2 ? PL_TRANS : PL_NO_TRANS;
    const bool accumulate = (_i & 4) != 0;
    const int64_t a_rows = ta ? z.K : z.M, lda = (ta ? z.M : z.K) + 3;
    const int64_t b_rows = tb ? z.N : z.K, ldb = (tb ? z.K : z.N) + 1, ldc = z.N + 2;
    float *a = floats(a_rows * lda, 1, -1.0, 1.0), *b = floats(b_rows * ldb, 2, -1.0, 1.0);
    float *c = floats(z.M * ldc, 3, -1.0, 1.0), *before = floats(z.M * ldc, 3, -1.0, 1.0);
    verdict v = {0};
    int64_t n_touched = 0;
    const int64_t step = 1 + z.M * z.N / 40000; /* of the elements that are checked */

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

START_TEST(the_same_product_twice_gives_the_same_bits)
{
    enum { M = 500, N = 700, K = 300 };
    float *a = floats(M * K, 1, -1.0, 1.0), *b = floats(K * N, 2, -1.0, 1.0);
    float *c = sentinels(M * N), *again = sentinels(M * N);

    pl_matmul(PL_NO_TRANS, PL_NO_TRANS, M, N, K, a, K, b, N, false, c, N, NULL);
    pl_matmul(PL_NO_TRANS, PL_NO_TRANS, M, N, K, a, K, b, N, false, again, N, &progress);
    ck_assert_mem_eq(c, again, M * N * sizeof *c);
    pl_free(a);
    pl_free(b);
    pl_free(c);
    pl_free(again);
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
    tcase_add_loop_test(tests, product_agrees_with_f64_within_its_bound, 0, N_SHAPES * 8);
    tcase_add_test(tests, every_block_of_a_cut_product_is_exact);
    tcase_add_test(tests, progress_is_called_about_every_2e8_flops);
    tcase_add_test(tests, the_same_product_twice_gives_the_same_bits);
    tcase_add_test(tests, empty_products_are_sums_of_nothing);
    tcase_add_test(tests, the_backend_names_itself);
    suite_add_tcase(suite, tests);
    return ck_main(suite);
}
