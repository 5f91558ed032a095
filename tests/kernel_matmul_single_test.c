/* kernel_matmul_single_test -- products of one row: in the order that kernels/matmul_single.h
 * gives, bit for bit, on every ISA, whatever the storage, place and number of threads. */
#include "config.h"

#include "kernels/matmul_single.h"

#include "kernels/isa.h"
#include "kernels/lanes.h"
#include "src/base/memory.h"
#include "tests/check_main.h"
#include "tests/kernel_check.h"

#include <string.h>

/** sum + x y, compiled as the kernels of an ISA are: whether it is rounded once or twice is up to the
 * compiler, which contracts at -O3 and not at -Og, and to what the target can. */
__attribute__((noinline)) static float add_product_generic(float sum, float x, float y)
{
    return sum + x * y;
}

#if defined(__x86_64__)
PL_AVX2 __attribute__((noinline)) static float add_product_fma(float sum, float x, float y)
{
    return sum + x * y;
}
#endif

/** sum + x y as the ISA in use adds a product. */
static float add_product(float sum, float x, float y)
{
#if defined(__x86_64__)
    if (pl_isa_get() != PL_ISA_GENERIC)
        return add_product_fma(sum, x, y);
#endif
    return add_product_generic(sum, x, y);
}

/** A block of a dot product, as the header has it. */
static float dot_block(int64_t K, const float *a, const float *b)
{
    float chain[PL_DOT_CHAINS] = {0};

    for (int64_t k = 0; k < K; k++)
        chain[k % PL_DOT_CHAINS] = add_product(chain[k % PL_DOT_CHAINS], a[k], b[k]);
    for (int half = PL_DOT_CHAINS / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            chain[i] += chain[i + half];
    return chain[0];
}

/** add + a[K] . b[K]; without `adds` the first block alone. */
static float dot(int64_t K, const float *a, const float *b, bool adds, float add)
{
    float sum = add;

    for (int64_t k = 0; k < K; k += PL_DOT_K) {
        const float block = dot_block(K - k < PL_DOT_K ? K - k : PL_DOT_K, a + k, b + k);

        sum = k == 0 && !adds ? block : block + sum;
    }
    return sum;
}

static const struct {
    int64_t N, K;
} sizes[] = {{64, 1},     {65, 31},   {130, 32},    {67, 33},
             {300, 700},  {71, 4096}, {80, 4097},   {1500, 4101}, /* the last on several threads */
             {64, 9000}};
enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

/* What a product is added to: nothing, what c holds, an array with rows of its own length. */
typedef enum { NOTHING, ITSELF, RESIDUAL, N_ADDED } added;

/** A row, or (the operands change places) a column, against the header's order. */
static int64_t count_wrong_dots(int64_t N, int64_t K, int64_t pad, bool column, added to)
{
    const int64_t ld = K + pad;
    float *a = floats(K, 1, -1.0, 1.0), *b = floats(N * ld, 2, -1.0, 1.0);
    float *c = floats(N * (1 + pad), 3, -1.0, 1.0);
    float *had = pl_alloc((size_t)(N * (1 + pad)) * sizeof *had);
    float *residual = floats(N * (2 + pad), 4, -1.0, 1.0);
    const int64_t c_step = column ? 1 + pad : 1, residual_step = column ? 2 + pad : 1;
    int64_t n_wrong = 0;
    pl_product p = {.M = 1, .N = N, .K = K, .dtype = PL_F32, .c_dtype = PL_F32, .c = c,
                    .accumulate = to == ITSELF, .count = 1, .dots = true, .trans_b = PL_TRANS,
                    .a = a, .lda = K, .b = b, .ldb = ld, .ldc = N,
                    .residual = to == RESIDUAL ? residual : NULL, .ld_residual = N};

    if (column) {
        p.M = N;
        p.N = 1;
        p.trans_b = PL_NO_TRANS;
        p.a = b;
        p.lda = ld;
        p.b = a;
        p.ldb = 1;
        p.ldc = c_step;
        p.ld_residual = residual_step;
    }
    memcpy(had, c, (size_t)(N * (1 + pad)) * sizeof *had);
    pl_matmul_run(&p, NULL);
    for (int64_t j = 0; j < N; j++) {
        const float add = to == RESIDUAL ? residual[j * residual_step] : had[j * c_step];
        const float wanted = dot(K, a, b + j * ld, to != NOTHING, add);

        n_wrong += memcmp(&c[j * c_step], &wanted, sizeof wanted) != 0;
        for (int64_t i = 1; i < c_step; i++) /* between elements nothing is written */
            n_wrong += memcmp(&c[j * c_step + i], &had[j * c_step + i], sizeof *c) != 0;
    }
    pl_free(a);
    pl_free(b);
    pl_free(c);
    pl_free(had);
    pl_free(residual);
    return n_wrong;
}

START_TEST(dots_have_the_bits_of_their_order_on_any_number_of_threads)
{
    const int size = _i % N_SIZES;

    if (!use_isa(_i / N_SIZES))
        ck_skip("this CPU lacks the ISA");
#if defined(__SANITIZE_ADDRESS__)
    if (pl_isa_get() != PL_ISA_GENERIC)
        ck_skip("the sanitizers' checks keep products and sums apart");
#endif
    for (int i = 0; i < 12 * N_ADDED; i++) {
        static const int n_threads[] = {1, 2, 4};

        pl_matmul_set_threads(n_threads[i / 4 / N_ADDED]);
        ck_assert_int_eq(count_wrong_dots(sizes[size].N, sizes[size].K, i & 1 ? 3 : 0, (i & 2) != 0,
                                          (added)(i / 4 % N_ADDED)),
                         0);
    }
}
END_TEST

/** Without dots, and where b is stored across K: the chains of the other products. */
START_TEST(one_row_has_the_bits_of_two)
{
    enum { N = 4993, K = 1111 };
    float *a = floats(2 * K, 1, -1.0, 1.0), *b = floats(N * K, 2, -1.0, 1.0);
    float *two = floats(2 * N, 3, -1.0, 1.0), *one = keep(pl_alloc(N * sizeof *one));

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    memcpy(one, two, N * sizeof *one);
    for (int i = 0; i < 6; i++) {
        pl_product p = {.M = 2, .N = N, .K = K, .dtype = PL_F32, .c_dtype = PL_F32, .c = two,
                        .accumulate = i & 1, .count = 1, .trans_b = i & 2 ? PL_TRANS : PL_NO_TRANS,
                        .trans_a = i & 4 ? PL_TRANS : PL_NO_TRANS, .a = a,
                        .lda = i & 4 ? 2 : K, .b = b, .ldb = i & 2 ? K : N, .ldc = N};

        pl_matmul_set_threads(i < 4 ? 1 : 3);
        pl_matmul_run(&p, NULL);
        p.M = 1;
        p.c = one;
        pl_matmul_run(&p, NULL);
        ck_assert_mem_eq(one, two, N * sizeof *one);
    }
    pl_free(a);
    pl_free(b);
    pl_free(two);
    pl_free(one);
}
END_TEST

static int n_calls;

static void count_call(void *data)
{
    (void)data;
    n_calls++;
}

START_TEST(a_long_row_calls_the_hook_about_every_2e8_flops)
{
    enum { N = 1 << 14, K = 1 << 14 };
    float *a = pl_alloc(K * sizeof *a), *b = pl_alloc((size_t)N * sizeof *b), *c = pl_alloc(N * sizeof *c);
    const pl_progress progress = {.call = count_call};

    n_calls = 0;
    pl_matmul_set_threads(1);
    /* all rows of b are one: rows 0 apart */
    pl_matmul_run(&(pl_product){.M = 1, .N = N, .K = K, .dtype = PL_F32, .c_dtype = PL_F32, .a = a,
                                .lda = K, .b = b, .ldb = 0, .c = c, .ldc = N, .count = 1},
                  &progress);
    ck_assert_int_ge(n_calls, 2); /* 5.4e8 FLOPs, called within */
    ck_assert_int_le(n_calls, 3);
    pl_free(a);
    pl_free(b);
    pl_free(c);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("matmul of one row");
    TCase *tests = tcase_create("single");

    pl_matmul_set_threads(1); /* the suite forks: a pool of threads would not survive */
    tcase_add_loop_test(tests, dots_have_the_bits_of_their_order_on_any_number_of_threads, 0,
                        PL_N_ISA * N_SIZES);
    tcase_add_loop_test(tests, one_row_has_the_bits_of_two, 0, PL_N_ISA);
    tcase_add_test(tests, a_long_row_calls_the_hook_about_every_2e8_flops);
    suite_add_tcase(suite, tests);
    return ck_main(suite);
}
