/* Products with weights of bytes on every ISA: exact on integers, within a derived bound of f64 on
 * everything else, adversarial inputs included. */
#include "config.h"

#include "kernels/matmul_int8.h"

#include "src/base/bf16.h"
#include "tests/check_main.h"
#include "tests/matmul_check.h"

#include <stdlib.h>
#include <string.h>

static const product_shape shapes[] = {{1, 1, 1},       {1, 33, 4},     {3, 31, 5},
                                       {13, 64, 127},   {14, 32, 64},   {15, 65, 1025},
                                       {200, 100, 301}, {29, 300, 2049}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static int8_t byte(uint64_t *state)
{
    return (int8_t)((int)(uniform(state) * 255.0) - 127);
}

/** How a product is made; a is stored [M, K] or [K, M], c has 3 elements between its rows. */
typedef struct {
    product_shape z;
    pl_trans ta;
    pl_dtype dtype, c_dtype;
    bool accumulate;
} how;

/** c[M, N + 3] = 2 or NaN (where it must not be read), op= a . weights, SENTINELs between rows. */
static void *multiply(how h, const float *a, const pl_int8_weights *weights)
{
    const product_shape z = h.z;
    const int64_t ldc = z.N + 3, lda = (h.ta ? z.M : z.K) + 1;
    void *stored = keep(pl_alloc((size_t)((h.ta ? z.K : z.M) * lda) * pl_dtype_bytes(h.dtype)));
    void *c = keep(pl_alloc((size_t)(z.M * ldc + 1) * pl_dtype_bytes(h.c_dtype)));

    for (int64_t i = 0; i < z.M; i++)
        for (int64_t k = 0; k < z.K; k++)
            put(stored, h.dtype, h.ta ? k * lda + i : i * lda + k, a[i * z.K + k]);
    for (int64_t i = 0; i < z.M * ldc; i++)
        put(c, h.c_dtype, i, i % ldc >= z.N ? SENTINEL : h.accumulate ? 2.0f : NAN);
    const pl_product p = {.trans_a = h.ta,
                          .M = z.M,
                          .N = z.N,
                          .K = z.K,
                          .dtype = h.dtype,
                          .c_dtype = h.c_dtype,
                          .a = stored,
                          .lda = lda,
                          .ldc = ldc,
                          .int8 = weights,
                          .c = c,
                          .accumulate = h.accumulate,
                          .count = 1};

    pl_matmul_run(&p, NULL);
    return c;
}

/** Elements that are not the sum of products of bytes, rounded, or lie between rows and changed. */
static int64_t count_wrong(how h, const float *a, const int8_t *q, const void *c)
{
    const product_shape z = h.z;
    const int64_t ldc = z.N + 3;
    int64_t n_wrong = 0;

    for (int64_t i = 0; i < z.M; i++) {
        for (int64_t j = 0; j < ldc; j++) {
            int64_t sum = h.accumulate ? 2 : 0;

            for (int64_t k = 0; k < z.K && j < z.N; k++)
                sum += (int64_t)a[i * z.K + k] * q[k * z.N + j];
            float want = j < z.N ? (float)sum : SENTINEL;

            if (h.c_dtype == PL_BF16)
                want = pl_bf16_to_f32(pl_bf16_of_f32(want));
            n_wrong += get(c, h.c_dtype, i * ldc + j) != want;
        }
    }
    return n_wrong;
}

/** Every row has a 127, so that its scale is 1; scales of the weights are 1 too. */
START_TEST(bytes_are_multiplied_exactly)
{
    const int isa = _i / N_SHAPES;
    const product_shape z = shapes[_i % N_SHAPES];
    uint64_t state = (uint64_t)_i;
    float *a = floats(z.M * z.K, 1, 0.0, 1.0), *ones = floats(z.N, 1, 1.0, 1.0);
    int8_t *q = keep(pl_alloc((size_t)(z.K * z.N))), *qt = keep(pl_alloc((size_t)(z.K * z.N)));
    int64_t n_wrong = 0;

    if (!use_isa(isa))
        ck_skip("this CPU lacks the ISA");
    for (int64_t i = 0; i < z.M * z.K; i++)
        a[i] = i % z.K == i / z.K % z.K ? 127.0f : (float)byte(&state);
    for (int64_t k = 0; k < z.K; k++)
        for (int64_t n = 0; n < z.N; n++)
            q[k * z.N + n] = qt[n * z.K + k] = byte(&state);
    pl_int8_weights *weights = pl_int8_weights_create(z.K, z.N);

    for (int i = 0; i < 32; i++) {
        const how h = {.z = z,
                       .ta = i & 1 ? PL_TRANS : PL_NO_TRANS,
                       .dtype = i & 2 ? PL_BF16 : PL_F32,
                       .c_dtype = i & 4 ? PL_BF16 : PL_F32,
                       .accumulate = (i & 8) != 0};

        if (i & 16)
            pl_int8_weights_set(weights, PL_TRANS, qt, z.K, ones);
        else
            pl_int8_weights_set(weights, PL_NO_TRANS, q, z.N, ones);
        pl_matmul_set_threads(1 + i % 3);
        n_wrong += count_wrong(h, a, q, multiply(h, a, weights));
    }
    pl_int8_weights_destroy(weights);
    ck_assert_int_eq(n_wrong, 0);
}
END_TEST

/** The longest sum of the largest products: nothing overflows or saturates. */
START_TEST(the_longest_sum_is_exact)
{
    enum { K = PL_INT8_MOST_K, N = 3 };
    float *a = floats(2 * (int64_t)K, 1, 127.0, 127.0), *ones = floats(N, 1, 1.0, 1.0), c[2 * N];
    int8_t *q = keep(pl_alloc((size_t)K * N));

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    for (int64_t k = 0; k < K; k++) {
        a[K + k] = k % 2 == 0 ? 127.0f : -127.0f;
        q[k * N] = 127;
        q[k * N + 1] = -127;
        q[k * N + 2] = k % 2 == 0 ? 127 : -127;
    }
    pl_int8_weights *weights = pl_int8_weights_create(K, N);
    pl_int8_weights_set(weights, PL_NO_TRANS, q, N, ones);
    const pl_product p = {
        .M = 2, .N = N, .K = K, .a = a, .lda = K, .ldc = N, .int8 = weights, .c = c, .count = 1};

    pl_matmul_set_caches(1 << 10, 1, 1); /* as little space as there may be */
    pl_matmul_run(&p, NULL);
    pl_int8_weights_destroy(weights);
    const float all = (float)(16129 * (int64_t)K);

    ck_assert(c[0] == all && c[1] == -all && c[2] == 0.0f);
    ck_assert(c[3] == 0.0f && c[4] == 0.0f && c[5] == all);
}
END_TEST

/** The n-th kind of adversary: values[rows, K] of which whole rows are alike in kind. */
static void fill(float *x, int64_t rows, int64_t K, int kind)
{
    uint64_t state = (uint64_t)kind + 77;

    for (int64_t i = 0; i < rows; i++) {
        const double size = kind == 0   ? 1.0
                            : kind == 1 ? ldexp(1.0, (int)(i * 37 % 120) - 60) /* of all sizes */
                            : kind == 2 ? 0x1p-140                             /* denormals */
                                        : 0x1p50;

        for (int64_t k = 0; k < K; k++)
            x[i * K + k] = (float)(size * (2.0 * uniform(&state) - 1.0));
        if (kind == 3) /* one hot */
            for (int64_t k = 0; k < K; k++)
                x[i * K + k] = k == i % K ? -3.5e15f : 0.0f;
        if (kind == 4) /* one that dwarfs the others */
            x[i * K + i % K] = 0x1p62f;
        if (kind == 5) /* all alike */
            for (int64_t k = 0; k < K; k++)
                x[i * K + k] = 0.3f;
    }
}
enum { N_KINDS = 6 };

/** Half a step and, where rows are too small to have one, all of it. */
static double largest_error(double scale)
{
    return scale > 0.0 ? scale * (0.5 + 0x1p-15) : 0x1p-100;
}

START_TEST(a_quantised_weight_is_within_half_a_step)
{
    enum { K = 301, N = 70 };
    float *w = floats(K * N, 1, 0.0, 1.0), *scale = floats(N, 1, 0.0, 1.0);
    int8_t *q = keep(pl_alloc(K * N));
    verdict v = {0};
    int64_t n_unlike = 0;

    if (!use_isa(_i / N_KINDS))
        ck_skip("this CPU lacks the ISA");
    fill(w, N, K, _i % N_KINDS); /* [N, K]: a channel is a row */
    pl_int8_weights *weights = pl_int8_weights_create(K, N);
    pl_int8_weights_quantize(weights, PL_TRANS, PL_F32, w, K);
    pl_int8_weights_get(weights, q, scale);
    for (int n = 0; n < N; n++) {
        float most = 0.0f;

        for (int k = 0; k < K; k++) {
            const double x = (double)w[n * K + k], s = (double)scale[n];

            most = fmaxf(most, fabsf(w[n * K + k]));
            judge(&v, s * q[k * N + n], x, largest_error(s));
            n_unlike += q[k * N + n] == INT8_MIN;
        }
        n_unlike += scale[n] != (most < 0x1p-100f ? 0.0f : most / 127.0f);
    }
    pl_int8_weights_destroy(weights);
    ck_assert_int_eq(v.n_wrong, 0);
    ck_assert_int_eq(n_unlike, 0);
}
END_TEST

/** |a.w - c| <= sum (|a| e_w + (|w| + e_w) e_a) and three roundings, e the errors of
 * quantisation. */
START_TEST(products_agree_with_f64_within_what_quantisation_loses)
{
    enum { M = 17, N = 70, K = 301 };
    const int a_kind = _i % N_KINDS, w_kind = _i / N_KINDS % N_KINDS;
    const how h = {.z = {M, N, K}, .accumulate = true};
    float *a = floats(M * K, 1, 0.0, 1.0), *w = floats(K * N, 1, 0.0, 1.0);
    verdict v = {0};

    if (!use_isa(_i / N_KINDS / N_KINDS))
        ck_skip("this CPU lacks the ISA");
    fill(a, M, K, a_kind);
    fill(w, N, K, w_kind);
    pl_int8_weights *weights = pl_int8_weights_create(K, N);
    pl_int8_weights_quantize(weights, PL_TRANS, PL_F32, w, K);
    const float *c = multiply(h, a, weights);

    for (int i = 0; i < M; i++)
        for (int n = 0; n < N; n++) {
            double most_a = 0.0, most_w = 0.0, sum = 2.0, lost = 0.0, size = 2.0;

            for (int k = 0; k < K; k++) {
                most_a = fmax(most_a, fabs((double)a[i * K + k]));
                most_w = fmax(most_w, fabs((double)w[n * K + k]));
            }
            const double e_a = largest_error(most_a < 0x1p-100 ? 0.0 : most_a / 127.0);
            const double e_w = largest_error(most_w < 0x1p-100 ? 0.0 : most_w / 127.0);

            for (int k = 0; k < K; k++) {
                const double x = fabs((double)a[i * K + k]), y = fabs((double)w[n * K + k]);

                sum += (double)a[i * K + k] * (double)w[n * K + k];
                lost += x * e_w + (y + e_w) * e_a;
                size += (x + e_a) * (y + e_w);
            }
            judge(&v, (double)c[i * (N + 3) + n], sum, lost + gamma_n(4.0) * size);
        }
    pl_int8_weights_destroy(weights);
    ck_assert_int_eq(v.n_wrong, 0);
}
END_TEST

START_TEST(what_is_not_finite_spoils_its_row_or_channel_alone)
{
    enum { M = 17, N = 40, K = 50 };
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    int8_t q[K * N];
    float scale[N];
    int64_t n_wrong = 0;

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    for (int b = 0; b < 3; b++) {
        float *a = floats(M * K, 1, -1.0, 1.0), *w = floats(K * N, 2, -1.0, 1.0);
        const how h = {.z = {M, N, K}};

        a[5 * K + 7] = w[9 * N + 11] = bad[b];
        memset(a + 8 * K, 0, K * sizeof *a); /* and zeros stay zeros */
        pl_int8_weights *weights = pl_int8_weights_create(K, N);
        pl_int8_weights_quantize(weights, PL_NO_TRANS, PL_F32, w, N);
        const float *c = multiply(h, a, weights);

        pl_int8_weights_get(weights, q, scale);
        for (int k = 0; k < K; k++)
            n_wrong += q[k * N + 11] != 0;
        for (int i = 0; i < M; i++)
            for (int n = 0; n < N; n++) {
                const float x = c[i * (N + 3) + n];

                n_wrong += i == 5 || n == 11 ? !isnan(x) : i == 8 ? x != 0.0f : !isfinite(x);
            }
        pl_int8_weights_destroy(weights);
    }
    ck_assert_int_eq(n_wrong, 0);
}
END_TEST

START_TEST(threads_caches_batches_and_zeros_change_no_bit)
{
    enum { M = 310, N = 450, K = 300 };
    float *a = floats(M * K, 1, -1.0, 1.0), *w = floats(K * N, 2, -1.0, 1.0);
    int64_t n_unlike = 0;

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    pl_int8_weights *weights = pl_int8_weights_create(K, N);
    pl_int8_weights_quantize(weights, PL_NO_TRANS, PL_F32, w, N);
    const float *zeros = keep(pl_alloc(M * N * sizeof *zeros)); /* adding them changes no bit */

    pl_matmul_set_threads(1);
    const float *whole = multiply((how){.z = {M, N, K}}, a, weights);

    for (int i = 0; i < 6; i++) {
        float *c = sentinels(M * N);
        const int64_t count = i < 3 ? 1 : 10;
        const pl_product p = {.M = M / count,
                              .N = N,
                              .K = K,
                              .a = a,
                              .lda = K,
                              .ldc = N,
                              .int8 = weights,
                              .c = c,
                              .count = count,
                              .a_step = M / count * K,
                              .c_step = M / count * N,
                              .residual = zeros,
                              .ld_residual = 3};

        pl_matmul_set_threads(1 << i % 3); /* 1, 2, 4 */
        if (i % 2 == 1)
            pl_matmul_set_caches(1 << 10, 1 << 14, 1 << 16);
        pl_matmul_run(&p, NULL);
        for (int m = 0; m < M; m++)
            n_unlike += memcmp(c + m * N, whole + m * (N + 3), N * sizeof *c) != 0;
    }
    pl_int8_weights_destroy(weights);
    ck_assert_int_eq(n_unlike, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("int8");
    TCase *tests = tcase_create("int8");

    pl_matmul_set_threads(1); /* the suite forks: a pool of threads would not survive */
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, bytes_are_multiplied_exactly, 0, PL_N_ISA * N_SHAPES);
    tcase_add_loop_test(tests, the_longest_sum_is_exact, 0, PL_N_ISA);
    tcase_add_loop_test(tests, a_quantised_weight_is_within_half_a_step, 0, PL_N_ISA * N_KINDS);
    tcase_add_loop_test(tests, products_agree_with_f64_within_what_quantisation_loses, 0,
                        PL_N_ISA * N_KINDS * N_KINDS);
    tcase_add_loop_test(tests, what_is_not_finite_spoils_its_row_or_channel_alone, 0, PL_N_ISA);
    tcase_add_loop_test(tests, threads_caches_batches_and_zeros_change_no_bit, 0, PL_N_ISA);
    suite_add_tcase(suite, tests);
    return ck_main(suite);
}
