/* Matmul on every ISA against f64 and against integers: every transposition, strides, blocks, what
 * beta = 0 promises, and that no bit depends on shape, place or threads. */
#include "config.h"

#include "kernels/matmul.h"

#include "src/base/bf16.h"
#include "src/base/status.h"
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

/** Case i: the ISA, the shape, both transpositions, accumulation. */
START_TEST(product_agrees_with_f64_within_its_bound)
{
    const shape z = shapes[_i / 8 % N_SHAPES];
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

/* --- f32 and bf16, by one interface --- */

/** What is multiplied, and into what. */
static const struct {
    pl_dtype dtype, c_dtype;
} types[] = {{PL_F32, PL_F32}, {PL_BF16, PL_F32}, {PL_BF16, PL_BF16}};
enum { N_TYPES = sizeof types / sizeof *types };

static void put(void *x, pl_dtype dtype, int64_t at, float value)
{
    if (dtype == PL_BF16)
        ((pl_bf16 *)x)[at] = pl_bf16_of_f32(value);
    else
        ((float *)x)[at] = value;
}

static float get(const void *x, pl_dtype dtype, int64_t at)
{
    return dtype == PL_BF16 ? pl_bf16_to_f32(((const pl_bf16 *)x)[at]) : ((const float *)x)[at];
}

/** The matrix of `values`[rows, cols] as it is stored: transposed or not, rows `ld` apart. */
static void *stored(const float *values, int64_t rows, int64_t cols, pl_trans trans, int64_t ld,
                    pl_dtype dtype)
{
    void *x = pl_alloc((size_t)((trans == PL_TRANS ? cols : rows) * ld) * pl_dtype_bytes(dtype));

    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            put(x, dtype, trans == PL_TRANS ? j * ld + i : i * ld + j, values[i * cols + j]);
    return x;
}

/** c[M, N], all of one value, in rows ldc apart. */
static void *filled(int64_t n, pl_dtype dtype, float value)
{
    void *c = pl_alloc((size_t)(n + 1) * pl_dtype_bytes(dtype));

    for (int64_t i = 0; i < n; i++)
        put(c, dtype, i, value);
    return c;
}

typedef struct {
    shape z;
    pl_trans ta, tb;
    int64_t pad; /* elements between stored rows */
    bool accumulate, packed;
} how;

/** c[M, N + 3] = 2 (or NaN where it must not be read) op= a . b, the rest SENTINEL's rounding. */
static void *multiply(how h, int type, const float *a, const float *b)
{
    const pl_dtype dtype = types[type].dtype, c_dtype = types[type].c_dtype;
    const shape z = h.z;
    const int64_t lda = (h.ta ? z.M : z.K) + h.pad, ldb = (h.tb ? z.K : z.N) + h.pad;
    const int64_t ldc = z.N + 3;
    void *a_stored = stored(a, z.M, z.K, h.ta, lda, dtype);
    void *b_stored = stored(b, z.K, z.N, h.tb, ldb, dtype);
    void *c = filled(z.M * ldc, c_dtype, SENTINEL);
    pl_matmul_packed *packed = NULL;

    for (int64_t i = 0; i < z.M; i++)
        for (int64_t j = 0; j < z.N; j++)
            put(c, c_dtype, i * ldc + j, h.accumulate ? 2.0f : NAN);
    if (h.packed) {
        packed = pl_matmul_packed_create(dtype, z.K, z.N);
        pl_matmul_pack(packed, h.tb, b_stored, ldb);
    }
    const pl_product p = {.trans_a = h.ta,
                          .trans_b = h.tb,
                          .M = z.M,
                          .N = z.N,
                          .K = z.K,
                          .dtype = dtype,
                          .c_dtype = c_dtype,
                          .a = a_stored,
                          .b = h.packed ? NULL : b_stored,
                          .lda = lda,
                          .ldb = ldb,
                          .ldc = ldc,
                          .packed = packed,
                          .c = c,
                          .accumulate = h.accumulate,
                          .count = 1};

    pl_matmul_run(&p, NULL);
    pl_matmul_packed_destroy(packed);
    pl_free(a_stored);
    pl_free(b_stored);
    return c;
}

static float *integers(int64_t n, uint64_t seed, int most)
{
    float *x = pl_alloc((size_t)(n + 1) * sizeof *x);
    uint64_t state = seed + 1;

    for (int64_t i = 0; i < n; i++)
        x[i] = (float)((int)(uniform(&state) * (2 * most + 1)) - most);
    return x;
}

/** Elements that differ from the exact product rounded to c's type, or lie outside and changed. */
static int64_t count_wrong(how h, int type, const float *a, const float *b, const void *c)
{
    const pl_dtype c_dtype = types[type].c_dtype;
    const int64_t ldc = h.z.N + 3;
    const float outside = c_dtype == PL_BF16 ? pl_bf16_to_f32(pl_bf16_of_f32(SENTINEL)) : SENTINEL;
    int64_t n_wrong = 0;

    for (int64_t i = 0; i < h.z.M; i++) {
        for (int64_t j = 0; j < h.z.N; j++) {
            int64_t sum = h.accumulate ? 2 : 0;

            for (int64_t k = 0; k < h.z.K; k++)
                sum += (int64_t)a[i * h.z.K + k] * (int64_t)b[k * h.z.N + j];
            const float want =
                c_dtype == PL_BF16 ? pl_bf16_to_f32(pl_bf16_of_f32((float)sum)) : (float)sum;

            n_wrong += get(c, c_dtype, i * ldc + j) != want;
        }
        for (int64_t j = h.z.N; j < ldc; j++)
            n_wrong += get(c, c_dtype, i * ldc + j) != outside;
    }
    return n_wrong;
}

static bool choose(int i)
{
    return use_isa(i / N_TYPES) != 0;
}

/** Shapes up to 70, drawn, with every transposition, padding, accumulation, packing. */
START_TEST(integers_are_exact_in_any_shape_and_storage)
{
    enum { N_DRAWN = 1500, MOST = 70 };
    uint64_t state = 7;
    int64_t n_wrong = 0;

    if (!choose(_i))
        ck_skip("this CPU lacks the ISA");
    for (int n = 0; n < N_DRAWN; n++) {
        how h = {.ta = n & 1 ? PL_TRANS : PL_NO_TRANS,
                 .tb = n & 2 ? PL_TRANS : PL_NO_TRANS,
                 .accumulate = (n & 4) != 0,
                 .packed = (n & 24) == 24,
                 .pad = n % 3};
        h.z = (shape){(int64_t)(uniform(&state) * MOST), (int64_t)(uniform(&state) * MOST),
                      (int64_t)(uniform(&state) * MOST)};
        if (n % 5 == 0)
            h.z.M = 1 + n / 5 % 9; /* skinny ones, both ways */
        if (n % 7 == 0)
            h.z.N = 1 + n / 7 % 9;
        float *a = integers(h.z.M * h.z.K, (uint64_t)n, 1);
        float *b = integers(h.z.K * h.z.N, (uint64_t)n + 5000, 2);
        void *c = multiply(h, _i % N_TYPES, a, b);
        const int64_t wrong = count_wrong(h, _i % N_TYPES, a, b, c);

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
    const how cases[] = {{.z = {37, 1100, 2501}, .pad = 1},
                         {.z = {2100, 70, 1300}, .ta = PL_TRANS, .accumulate = true},
                         {.z = {300, 5, 2100}, .accumulate = true},
                         {.z = {600, 100, 1601}, .tb = PL_TRANS, .packed = true}};
    int64_t n_wrong = 0;

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    for (int i = 0; i < 4; i++) {
        const shape z = cases[i].z;
        float *a = integers(z.M * z.K, 11, 8), *b = integers(z.K * z.N, 12, 8);
        void *c = multiply(cases[i], N_TYPES - 1, a, b);

        n_wrong += count_wrong(cases[i], N_TYPES - 1, a, b, c);
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
    const how h = {.z = {83, 131, 2300}, .accumulate = true};
    float *a = floats(h.z.M * h.z.K, 1, -1.0, 1.0), *b = floats(h.z.K * h.z.N, 2, -1.0, 1.0);
    verdict v = {0};

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    for (int64_t i = 0; i < h.z.M * h.z.K; i++)
        a[i] = pl_bf16_to_f32(pl_bf16_of_f32(a[i]));
    for (int64_t i = 0; i < h.z.K * h.z.N; i++)
        b[i] = pl_bf16_to_f32(pl_bf16_of_f32(b[i]));
    float *c = multiply(h, 1, a, b);

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

/** Bits of row i, column j of one product against those at (i_0 + i, j_0 + j) of another. */
static int64_t count_unlike(pl_dtype c_dtype, const void *part, shape z, const void *whole,
                            int64_t whole_N, int64_t i_0, int64_t j_0)
{
    const size_t bytes = pl_dtype_bytes(c_dtype);
    int64_t n_unlike = 0;

    for (int64_t i = 0; i < z.M; i++)
        n_unlike += memcmp((const char *)part + (size_t)(i * (z.N + 3)) * bytes,
                           (const char *)whole + (size_t)((i_0 + i) * (whole_N + 3) + j_0) * bytes,
                           (size_t)z.N * bytes) != 0;
    return n_unlike;
}

/** Rows of a, columns of b: each part of c, computed alone, from one element up. */
START_TEST(one_part_has_the_bits_of_the_whole)
{
    enum { M = 150, N = 200, K = 1300 };
    static const shape parts[] = {{1, 1, K},  {1, N, K},  {M, 1, K},   {2, 70, K}, {5, 16, K},
                                  {6, 64, K}, {13, 8, K}, {14, 33, K}, {64, 4, K}, {149, 199, K}};
    const int type = _i % N_TYPES;
    float *a = floats(M * K, 1, -1.0, 1.0), *b = floats(K * N, 2, -1.0, 1.0);
    int64_t n_unlike = 0;

    if (!choose(_i))
        ck_skip("this CPU lacks the ISA");
    void *whole = multiply((how){.z = {M, N, K}}, type, a, b);

    for (size_t i = 0; i < 4 * sizeof parts / sizeof *parts; i++) {
        const how h = {.z = parts[i / 4], .ta = i & 1, .tb = i & 2 ? PL_TRANS : PL_NO_TRANS};
        const int64_t i_0 = M - h.z.M, j_0 = (N - h.z.N) / 2;
        float *b_part = pl_alloc((size_t)(K * h.z.N) * sizeof *b_part);

        for (int64_t k = 0; k < K; k++)
            memcpy(b_part + k * h.z.N, b + k * N + j_0, (size_t)h.z.N * sizeof *b);
        void *part = multiply(h, type, a + i_0 * K, b_part);

        n_unlike += count_unlike(types[type].c_dtype, part, h.z, whole, N, i_0, j_0);
        pl_free(part);
        pl_free(b_part);
    }
    pl_free(whole);
    ck_assert_int_eq(n_unlike, 0);
}
END_TEST

START_TEST(storage_threads_caches_and_packing_change_no_bit)
{
    const shape z = {310, 450, 1100};
    const int type = _i % N_TYPES;
    float *a = floats(z.M * z.K, 1, -1.0, 1.0), *b = floats(z.K * z.N, 2, -1.0, 1.0);
    int64_t n_unlike = 0;

    if (!choose(_i))
        ck_skip("this CPU lacks the ISA");
    void *whole = multiply((how){.z = z, .accumulate = true}, type, a, b);

    for (int i = 0; i < 24; i++) {
        const how h = {.z = z,
                       .ta = i & 1 ? PL_TRANS : PL_NO_TRANS,
                       .tb = i & 2 ? PL_TRANS : PL_NO_TRANS,
                       .pad = i % 5,
                       .accumulate = true,
                       .packed = (i & 4) != 0};

        pl_matmul_set_threads(i / 8 == 0 ? 1 : 2 * (i / 8)); /* 1, 2, 4 */
        if (i >= 12) /* caches so small that everything is cut, then none at all */
            pl_matmul_set_caches(1 << 10, i < 18 ? 1 << 16 : 1, i < 18 ? 1 << 18 : 1);
        void *again = multiply(h, type, a, b);

        n_unlike += count_unlike(types[type].c_dtype, again, z, whole, z.N, 0, 0);
        pl_free(again);
    }
    pl_free(whole);
    ck_assert_int_eq(n_unlike, 0);
}
END_TEST

/** Set-up allocates, products never do; what is held is what was planned. */
START_TEST(after_the_reserve_no_product_allocates)
{
    const shape z = {310, 450, 1100};
    float *a = floats(z.M * z.K, 1, -1.0, 1.0), *b = floats(z.K * z.N, 2, -1.0, 1.0);
    pl_bf16 *c = pl_alloc((size_t)(z.M * z.N) * sizeof *c);
    int64_t n_allocated = 0;

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    pl_matmul_set_threads(4);
    pl_matmul_set_caches(1 << 14, 1 << 18, 1 << 20);
    pl_matmul_reserve();
    ck_assert_uint_eq(pl_matmul_space_held(), pl_matmul_space_wanted());
    for (int i = 0; i < 16; i++) {
        const pl_product p = {.trans_a = i & 1 ? PL_TRANS : PL_NO_TRANS,
                              .trans_b = i & 2 ? PL_TRANS : PL_NO_TRANS,
                              .M = z.M,
                              .N = z.N,
                              .K = z.K,
                              .dtype = i & 4 ? PL_BF16 : PL_F32,
                              .c_dtype = PL_BF16,
                              .a = a,
                              .b = b,
                              .lda = i & 1 ? z.M : z.K,
                              .ldb = i & 2 ? z.K : z.N,
                              .ldc = z.N,
                              .c = c,
                              .count = i & 8 ? 1 : 5};

        n_allocated -= pl_allocation_count();
        pl_matmul_run(&p, NULL);
        n_allocated += pl_allocation_count();
    }
    ck_assert_int_eq(n_allocated, 0);
    ck_assert_uint_eq(pl_matmul_space_held(), pl_matmul_space_wanted());
    pl_free(c);
}
END_TEST

/** c = r + a.b has the bits of c = r, c += a.b, and leaves r alone; also where rows are swapped for
 * columns, K is cut, or there is no K. */
START_TEST(a_residual_is_added_like_what_was_in_c)
{
    static const shape cases[] = {{33, 70, 65},    {40, 3, 130}, {2, 96, 50},
                                  {150, 45, 2100}, {9, 8, 0},    {300, 600, 1100}};
    const pl_dtype dtype = types[_i % N_TYPES].dtype, c_dtype = types[_i % N_TYPES].c_dtype;
    const size_t bytes = pl_dtype_bytes(c_dtype);
    int64_t n_unlike = 0;

    if (!choose(_i))
        ck_skip("this CPU lacks the ISA");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const shape z = cases[i];
        const int64_t ldc = z.N + 3, ldr = z.N + 5;
        void *a = stored(floats(z.M * z.K, 1, -1.0, 1.0), z.M, z.K, PL_NO_TRANS, z.K, dtype);
        void *b = stored(floats(z.K * z.N, 2, -1.0, 1.0), z.K, z.N, PL_NO_TRANS, z.N, dtype);
        void *r = stored(floats(z.M * ldr, 3, -9.0, 9.0), z.M, ldr, PL_NO_TRANS, ldr, c_dtype);
        void *before = stored(floats(z.M * ldr, 3, -9.0, 9.0), z.M, ldr, PL_NO_TRANS, ldr, c_dtype);
        void *want = filled(z.M * ldc, c_dtype, SENTINEL),
             *c = filled(z.M * ldc, c_dtype, SENTINEL);
        pl_product p = {.M = z.M,
                        .N = z.N,
                        .K = z.K,
                        .dtype = dtype,
                        .c_dtype = c_dtype,
                        .a = a,
                        .b = b,
                        .lda = z.K,
                        .ldb = z.N,
                        .ldc = ldc,
                        .c = want,
                        .accumulate = true,
                        .count = 1};

        for (int64_t m = 0; m < z.M; m++)
            memcpy((char *)want + (size_t)(m * ldc) * bytes, (char *)r + (size_t)(m * ldr) * bytes,
                   (size_t)z.N * bytes);
        pl_matmul_run(&p, NULL);
        p.c = c;
        p.accumulate = false;
        p.residual = r;
        p.ld_residual = ldr;
        pl_matmul_run(&p, NULL);
        n_unlike += memcmp(c, want, (size_t)(z.M * ldc) * bytes) != 0;
        n_unlike += memcmp(r, before, (size_t)(z.M * ldr) * bytes) != 0;
        pl_free(a);
        pl_free(b);
        pl_free(r);
        pl_free(before);
        pl_free(want);
        pl_free(c);
    }
    ck_assert_int_eq(n_unlike, 0);
}
END_TEST

/** The stored rows of x, ld elements apart, in n pieces of about even length, each somewhere else,
 * in reverse; NaNs between. */
static pl_pieces scattered(const void *x, int64_t rows, int64_t ld, size_t bytes, int n)
{
    const void **data = pl_alloc((size_t)n * sizeof *data);
    int64_t *begin = pl_alloc((size_t)(n + 1) * sizeof *begin);
    const size_t each = (size_t)((rows / n + 2) * ld) * bytes;
    char *room = pl_alloc(each * (size_t)n);

    memset(room, 0xff, each * (size_t)n);
    for (int i = 0; i < n; i++) {
        char *to = room + each * (size_t)(n - 1 - i);

        begin[i] = rows * i / n;
        begin[i + 1] = rows * (i + 1) / n;
        data[i] = memcpy(to, (const char *)x + (size_t)(begin[i] * ld) * bytes,
                         (size_t)((begin[i + 1] - begin[i]) * ld) * bytes);
    }
    return (pl_pieces){n, data, begin};
}

static void scattered_free(pl_pieces p)
{
    pl_free((void *)p.data[p.n - 1]);
    pl_free((void *)p.data);
    pl_free((void *)p.begin);
}

/** Either operand or both, few and many pieces (some empty), packed before or not. */
START_TEST(operands_in_pieces_have_the_bits_of_whole_ones)
{
    static const shape cases[] = {{150, 90, 1301}, {5, 70, 64}, {70, 3, 65}, {600, 70, 40}};
    const pl_dtype dtype = types[_i % N_TYPES].dtype, c_dtype = types[_i % N_TYPES].c_dtype;
    const size_t bytes = pl_dtype_bytes(dtype), c_bytes = pl_dtype_bytes(c_dtype);
    const float *values = floats(200000, 1, -1.0, 1.0);
    int64_t n_unlike = 0;

    if (!choose(_i))
        ck_skip("this CPU lacks the ISA");
    for (int i = 0; i < 4 * 16 * 3; i++) {
        const shape z = cases[i % 4];
        const int which = i / 4 % 4, n = i / 64 == 0 ? 2 : i / 64 == 1 ? 7 : 80;
        const pl_trans ta = i / 16 & 1 ? PL_TRANS : PL_NO_TRANS, tb = i / 16 & 2 ? PL_TRANS : 0;
        const int64_t lda = (ta ? z.M : z.K) + 1, ldb = (tb ? z.K : z.N) + 2;
        void *a = stored(values, z.M, z.K, ta, lda, dtype);
        void *b = stored(values + 7, z.K, z.N, tb, ldb, dtype);
        void *want = filled(z.M * z.N, c_dtype, SENTINEL), *c = filled(z.M * z.N, c_dtype, 0.0f);
        const pl_pieces a_pieces = scattered(a, ta ? z.K : z.M, lda, bytes, n);
        const pl_pieces b_pieces = scattered(b, tb ? z.N : z.K, ldb, bytes, n);
        pl_matmul_packed *packed = pl_matmul_packed_create(dtype, z.K, z.N);
        pl_product p = {.trans_a = ta,
                        .trans_b = tb,
                        .M = z.M,
                        .N = z.N,
                        .K = z.K,
                        .dtype = dtype,
                        .c_dtype = c_dtype,
                        .a = a,
                        .b = b,
                        .lda = lda,
                        .ldb = ldb,
                        .ldc = z.N,
                        .c = want,
                        .count = 1};

        pl_matmul_run(&p, NULL);
        p.c = c;
        p.a_pieces = which != 1 ? &a_pieces : NULL;
        p.b_pieces = which != 0 && which != 3 ? &b_pieces : NULL;
        if (which == 3) {
            pl_matmul_pack_pieces(packed, tb, &b_pieces, ldb);
            p.packed = packed;
        }
        pl_matmul_run(&p, NULL);
        n_unlike += memcmp(c, want, (size_t)(z.M * z.N) * c_bytes) != 0;
        pl_matmul_packed_destroy(packed);
        scattered_free(a_pieces);
        scattered_free(b_pieces);
        pl_free(a);
        pl_free(b);
        pl_free(want);
        pl_free(c);
    }
    ck_assert_int_eq(n_unlike, 0);
}
END_TEST

START_TEST(a_batch_has_the_bits_of_its_products)
{
    enum { COUNT = 5, M = 17, N = 40, K = 65, GAP = 7 };
    const pl_dtype dtype = types[_i % N_TYPES].dtype, c_dtype = types[_i % N_TYPES].c_dtype;
    float *values = floats(COUNT * (M * K + GAP), 1, -1.0, 1.0);
    int64_t n_unlike = 0;

    if (!choose(_i))
        ck_skip("this CPU lacks the ISA");
    void *a = stored(values, 1, COUNT * (M * K + GAP), PL_NO_TRANS, COUNT * (M * K + GAP), dtype);
    void *b = stored(values + 100, 1, K * N, PL_NO_TRANS, K * N, dtype);
    void *c = filled(COUNT * M * N, c_dtype, SENTINEL), *one = filled(M * N, c_dtype, SENTINEL);
    pl_product p = {.M = M,
                    .N = N,
                    .K = K,
                    .dtype = dtype,
                    .c_dtype = c_dtype,
                    .a = a,
                    .b = b,
                    .lda = K,
                    .ldb = N,
                    .ldc = N,
                    .c = c,
                    .count = COUNT,
                    .a_step = M * K + GAP,
                    .c_step = M * N};

    pl_matmul_set_threads(3);
    pl_matmul_run(&p, NULL);
    p.count = 1;
    p.c = one;
    for (int i = 0; i < COUNT; i++) {
        p.a = (const char *)a + (size_t)(i * (M * K + GAP)) * pl_dtype_bytes(dtype);
        pl_matmul_run(&p, NULL);
        n_unlike += memcmp((const char *)c + (size_t)(i * M * N) * pl_dtype_bytes(c_dtype), one,
                           M * N * pl_dtype_bytes(c_dtype)) != 0;
    }
    pl_free(a);
    pl_free(b);
    pl_free(c);
    pl_free(one);
    ck_assert_int_eq(n_unlike, 0);
}
END_TEST

/** Padding is 0 and 0 times infinity NaN: neither may reach what is beside the infinity. */
START_TEST(an_infinity_stays_in_its_row_and_column)
{
    const pl_dtype c_dtype = types[_i % N_TYPES].c_dtype;
    int64_t n_wrong = 0;

    if (!choose(_i))
        ck_skip("this CPU lacks the ISA");
    for (int n = 0; n < 64; n++) {
        const how h = {.z = {1 + n % 19, 3 + n * 5 % 67, 1 + n * 3 % 37},
                       .ta = n & 1 ? PL_TRANS : PL_NO_TRANS,
                       .tb = n & 2 ? PL_TRANS : PL_NO_TRANS,
                       .packed = n % 3 == 0};
        const shape z = h.z;
        const int64_t row = n % z.M, column = n % z.N;
        float *a = floats(z.M * z.K, 1, 1.0, 2.0), *b = floats(z.K * z.N, 2, 1.0, 2.0);

        a[row * z.K + z.K - 1] = INFINITY;
        b[(z.K - 1) * z.N + column] = INFINITY;
        void *c = multiply(h, _i % N_TYPES, a, b);

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
 * where vdpbf16ps takes those for 0. */
START_TEST(adversaries_agree_with_f64_within_their_bound)
{
    const how h = {.z = {23, 41, 1100}};
    const shape z = h.z;
    const int type = _i % N_TYPES;
    float *a = floats(z.M * z.K, 1, 0.0, 1.0), *b = floats(z.K * z.N, 2, 0.0, 1.0);
    uint64_t state = 5;
    verdict v = {0};

    if (!choose(_i))
        ck_skip("this CPU lacks the ISA");
    const bool flushes = types[type].dtype == PL_BF16 && pl_isa_get() == PL_ISA_AVX512BF16;
    const double half_step = types[type].c_dtype == PL_BF16 ? 0x1p-8 : 0.0;

    for (int64_t i = 0; i < z.M * z.K; i++)
        a[i] = adversary(i / z.K, i % z.K, &state);
    for (int64_t j = 0; j < z.N; j++)
        for (int64_t k = 0; k < z.K; k++)
            b[k * z.N + j] = adversary(j / 2, k, &state);
    const void *c = multiply(h, type, a, b);

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
    tcase_add_loop_test(tests, integers_are_exact_in_any_shape_and_storage, 0, PL_N_ISA * N_TYPES);
    tcase_add_loop_test(tests, bf16_results_are_the_exact_sums_rounded_once, 0, PL_N_ISA);
    tcase_add_loop_test(tests, bf16_agrees_with_f64_within_its_bound, 0, PL_N_ISA);
    tcase_add_loop_test(tests, one_part_has_the_bits_of_the_whole, 0, PL_N_ISA * N_TYPES);
    tcase_add_loop_test(tests, storage_threads_caches_and_packing_change_no_bit, 0,
                        PL_N_ISA * N_TYPES);
    tcase_add_loop_test(tests, after_the_reserve_no_product_allocates, 0, PL_N_ISA);
    tcase_add_loop_test(tests, a_residual_is_added_like_what_was_in_c, 0, PL_N_ISA * N_TYPES);
    tcase_add_loop_test(tests, operands_in_pieces_have_the_bits_of_whole_ones, 0,
                        PL_N_ISA * N_TYPES);
    tcase_add_loop_test(tests, a_batch_has_the_bits_of_its_products, 0, PL_N_ISA * N_TYPES);
    tcase_add_loop_test(tests, an_infinity_stays_in_its_row_and_column, 0, PL_N_ISA * N_TYPES);
    tcase_add_loop_test(tests, adversaries_agree_with_f64_within_their_bound, 0,
                        PL_N_ISA * N_TYPES);
    tcase_add_test(tests, openblas_and_own_agree_on_integers);
    tcase_add_test(tests, avx512bf16_is_chosen_where_it_is_and_refused_elsewhere);
    tcase_add_test(tests, empty_products_are_sums_of_nothing);
    tcase_add_test(tests, the_backend_names_itself);
    suite_add_tcase(suite, tests);
    return ck_main(suite);
}
