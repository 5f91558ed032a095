/* That no bit of a product depends on its shape and place, on storage, threads, caches, packing,
 * pieces, batches; on every ISA. */
#include "config.h"

#include "tests/matmul_check.h"

#include "src/base/bf16.h"
#include "tests/check_main.h"

#include <string.h>

/** Bits of row i, column j of one product against those at (i_0 + i, j_0 + j) of another. */
static int64_t count_unlike(pl_dtype c_dtype, const void *part, product_shape z, const void *whole,
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
    static const product_shape parts[] = {{1, 1, K},  {1, N, K},    {M, 1, K},  {2, 70, K},
                                          {5, 16, K}, {6, 64, K},   {13, 8, K}, {14, 33, K},
                                          {64, 4, K}, {149, 199, K}};
    const int type = _i % N_TYPES;
    float *a = floats(M * K, 1, -1.0, 1.0), *b = floats(K * N, 2, -1.0, 1.0);
    int64_t n_unlike = 0;

    if (!use_isa(_i / N_TYPES))
        ck_skip("this CPU lacks the ISA");
    void *whole = product_multiply((product_case){.z = {M, N, K}}, type, a, b);

    for (size_t i = 0; i < 4 * sizeof parts / sizeof *parts; i++) {
        const product_case h = {
            .z = parts[i / 4], .ta = i & 1, .tb = i & 2 ? PL_TRANS : PL_NO_TRANS};
        const int64_t i_0 = M - h.z.M, j_0 = (N - h.z.N) / 2;
        float *b_part = pl_alloc((size_t)(K * h.z.N) * sizeof *b_part);

        for (int64_t k = 0; k < K; k++)
            memcpy(b_part + k * h.z.N, b + k * N + j_0, (size_t)h.z.N * sizeof *b);
        void *part = product_multiply(h, type, a + i_0 * K, b_part);

        n_unlike += count_unlike(types[type].c_dtype, part, h.z, whole, N, i_0, j_0);
        pl_free(part);
        pl_free(b_part);
    }
    pl_free(whole);
    ck_assert_int_eq(n_unlike, 0);
}
END_TEST

/* Cut by caches; then two whose b stays in the L1, which threads share by rows and by columns. */
static const product_shape to_share[] = {{310, 450, 1100}, {2100, 40, 60}, {510, 1000, 8}};
enum { N_TO_SHARE = sizeof to_share / sizeof *to_share };

START_TEST(storage_threads_caches_and_packing_change_no_bit)
{
    const product_shape z = to_share[_i / N_TYPES % N_TO_SHARE];
    const int type = _i % N_TYPES;
    float *a = floats(z.M * z.K, 1, -1.0, 1.0), *b = floats(z.K * z.N, 2, -1.0, 1.0);
    int64_t n_unlike = 0;

    if (!use_isa(_i / N_TYPES / N_TO_SHARE))
        ck_skip("this CPU lacks the ISA");
    void *whole = product_multiply((product_case){.z = z, .accumulate = true}, type, a, b);

    for (int i = 0; i < 24; i++) {
        const product_case h = {.z = z,
                                .ta = i & 1 ? PL_TRANS : PL_NO_TRANS,
                                .tb = i & 2 ? PL_TRANS : PL_NO_TRANS,
                                .pad = i % 5,
                                .accumulate = true,
                                .packed = (i & 4) != 0};

        pl_matmul_set_threads(i / 8 == 0 ? 1 : 2 * (i / 8)); /* 1, 2, 4 */
        if (i >= 12) /* caches so small that everything is cut, then none at all */
            pl_matmul_set_caches(1 << 10, i < 18 ? 1 << 16 : 1, i < 18 ? 1 << 18 : 1);
        void *again = product_multiply(h, type, a, b);

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
    const product_shape z = {310, 450, 1100};
    float *a = floats(z.M * z.K, 1, -1.0, 1.0), *b = floats(z.K * z.N, 2, -1.0, 1.0);
    pl_bf16 *c = keep(pl_alloc((size_t)(z.M * z.N) * sizeof *c));
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
    static const product_shape cases[] = {{33, 70, 65},    {40, 3, 130}, {2, 96, 50},
                                          {150, 45, 2100}, {9, 8, 0},    {300, 600, 1100}};
    const pl_dtype dtype = types[_i % N_TYPES].dtype, c_dtype = types[_i % N_TYPES].c_dtype;
    const size_t bytes = pl_dtype_bytes(c_dtype);
    int64_t n_unlike = 0;

    if (!use_isa(_i / N_TYPES))
        ck_skip("this CPU lacks the ISA");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const product_shape z = cases[i];
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
    static const product_shape cases[] = {{150, 90, 1301}, {5, 70, 64}, {70, 3, 65}, {600, 70, 40}};
    const pl_dtype dtype = types[_i % N_TYPES].dtype, c_dtype = types[_i % N_TYPES].c_dtype;
    const size_t bytes = pl_dtype_bytes(dtype), c_bytes = pl_dtype_bytes(c_dtype);
    const float *values = floats(200000, 1, -1.0, 1.0);
    int64_t n_unlike = 0;

    if (!use_isa(_i / N_TYPES))
        ck_skip("this CPU lacks the ISA");
    for (int i = 0; i < 4 * 16 * 3; i++) {
        const product_shape z = cases[i % 4];
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

    if (!use_isa(_i / N_TYPES))
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

int main(void)
{
    Suite *suite = suite_create("matmul_bits");
    TCase *tests = tcase_create("matmul_bits");

    pl_matmul_set_threads(1); /* the suite forks: a pool of threads would not survive */
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, one_part_has_the_bits_of_the_whole, 0, PL_N_ISA * N_TYPES);
    tcase_add_loop_test(tests, storage_threads_caches_and_packing_change_no_bit, 0,
                        PL_N_ISA * N_TYPES * N_TO_SHARE);
    tcase_add_loop_test(tests, after_the_reserve_no_product_allocates, 0, PL_N_ISA);
    tcase_add_loop_test(tests, a_residual_is_added_like_what_was_in_c, 0, PL_N_ISA * N_TYPES);
    tcase_add_loop_test(tests, operands_in_pieces_have_the_bits_of_whole_ones, 0,
                        PL_N_ISA * N_TYPES);
    tcase_add_loop_test(tests, a_batch_has_the_bits_of_its_products, 0, PL_N_ISA * N_TYPES);
    suite_add_tcase(suite, tests);
    return ck_main(suite);
}
