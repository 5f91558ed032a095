#include "config.h"

#include "tests/matmul_check.h"

#include "src/base/bf16.h"

const operand_types types[N_TYPES] = {{PL_F32, PL_F32}, {PL_BF16, PL_F32}, {PL_BF16, PL_BF16}};

void put(void *x, pl_dtype dtype, int64_t at, float value)
{
    if (dtype == PL_BF16)
        ((pl_bf16 *)x)[at] = pl_bf16_of_f32(value);
    else
        ((float *)x)[at] = value;
}

float get(const void *x, pl_dtype dtype, int64_t at)
{
    return dtype == PL_BF16 ? pl_bf16_to_f32(((const pl_bf16 *)x)[at]) : ((const float *)x)[at];
}

void *stored(const float *values, int64_t rows, int64_t cols, pl_trans trans, int64_t ld,
             pl_dtype dtype)
{
    void *x = pl_alloc((size_t)((trans == PL_TRANS ? cols : rows) * ld) * pl_dtype_bytes(dtype));

    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            put(x, dtype, trans == PL_TRANS ? j * ld + i : i * ld + j, values[i * cols + j]);
    return x;
}

void *filled(int64_t n, pl_dtype dtype, float value)
{
    void *c = pl_alloc((size_t)(n + 1) * pl_dtype_bytes(dtype));

    for (int64_t i = 0; i < n; i++)
        put(c, dtype, i, value);
    return c;
}

void *product_multiply(product_case h, int type, const float *a, const float *b)
{
    const pl_dtype dtype = types[type].dtype, c_dtype = types[type].c_dtype;
    const product_shape z = h.z;
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

float *integers(int64_t n, uint64_t seed, int most)
{
    float *x = pl_alloc((size_t)(n + 1) * sizeof *x);
    uint64_t state = seed + 1;

    for (int64_t i = 0; i < n; i++)
        x[i] = (float)((int)(uniform(&state) * (2 * most + 1)) - most);
    return x;
}

int64_t product_count_wrong(product_case h, int type, const float *a, const float *b, const void *c)
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
