/* tile -- one register tile per ISA. */
#include "config.h"

#include "kernels/tile.h"

#include "kernels/isa.h"
#include "kernels/lanes.h"
#include "kernels/matmul_tile.h"

/* The same loop thrice: vectors must be of their own ISA's width where they are written, as GCC
 * splits wider ones before it inlines. Each holds all of its sums in registers. */

typedef float vec4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef float vec8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float vec16 __attribute__((vector_size(64), aligned(4), may_alias));

static void product_generic(int64_t K, const float *restrict a, int64_t row_step, int64_t k_step,
                            const float *restrict b, int64_t ldb, float scale, bool accumulate,
                            float *restrict c, int64_t ldc)
{
    enum { MR = 4, NV = 2, LANES = 4 };
    vec4 sum[MR][NV] = {{{0}}};

    for (int64_t k = 0; k < K; k++, a += k_step, b += ldb) {
        const vec4 b_0 = *(const vec4 *)b, b_1 = *(const vec4 *)(b + LANES);

#pragma GCC unroll 8
        for (int i = 0; i < MR; i++) {
            sum[i][0] += a[i * row_step] * b_0;
            sum[i][1] += a[i * row_step] * b_1;
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++)
        for (int j = 0; j < NV; j++) {
            vec4 *out = (vec4 *)(c + i * ldc + j * LANES);

            *out = accumulate ? sum[i][j] + *out : sum[i][j] * scale;
        }
}

#if defined(__x86_64__)

PL_AVX2 static void product_avx2(int64_t K, const float *restrict a, int64_t row_step,
                                 int64_t k_step, const float *restrict b, int64_t ldb, float scale,
                                 bool accumulate, float *restrict c, int64_t ldc)
{
    enum { MR = 4, NV = 2, LANES = 8 };
    vec8 sum[MR][NV] = {{{0}}};

    for (int64_t k = 0; k < K; k++, a += k_step, b += ldb) {
        const vec8 b_0 = *(const vec8 *)b, b_1 = *(const vec8 *)(b + LANES);

#pragma GCC unroll 8
        for (int i = 0; i < MR; i++) {
            sum[i][0] += a[i * row_step] * b_0;
            sum[i][1] += a[i * row_step] * b_1;
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++)
        for (int j = 0; j < NV; j++) {
            vec8 *out = (vec8 *)(c + i * ldc + j * LANES);

            *out = accumulate ? sum[i][j] + *out : sum[i][j] * scale;
        }
}

PL_AVX512 static void product_avx512(int64_t K, const float *restrict a, int64_t row_step,
                                     int64_t k_step, const float *restrict b, int64_t ldb,
                                     float scale, bool accumulate, float *restrict c, int64_t ldc)
{
    enum { MR = 8, NV = 2, LANES = 16 };
    vec16 sum[MR][NV] = {{{0}}};

    for (int64_t k = 0; k < K; k++, a += k_step, b += ldb) {
        const vec16 b_0 = *(const vec16 *)b, b_1 = *(const vec16 *)(b + LANES);

#pragma GCC unroll 8
        for (int i = 0; i < MR; i++) {
            sum[i][0] += a[i * row_step] * b_0;
            sum[i][1] += a[i * row_step] * b_1;
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++)
        for (int j = 0; j < NV; j++) {
            vec16 *out = (vec16 *)(c + i * ldc + j * LANES);

            *out = accumulate ? sum[i][j] + *out : sum[i][j] * scale;
        }
}

#endif

/* The tiles of matmul are as wide; words are words. */

static void transpose_generic(int64_t K, int64_t n, const char *b, int64_t ldb, float *out)
{
    pl_matmul_tile_generic.transpose(K, n, b, ldb, out);
}

#if defined(__x86_64__)
static void transpose_avx2(int64_t K, int64_t n, const char *b, int64_t ldb, float *out)
{
    pl_matmul_tile_avx2.transpose(K, n, b, ldb, out);
}

static void transpose_avx512(int64_t K, int64_t n, const char *b, int64_t ldb, float *out)
{
    pl_matmul_tile_avx512.transpose(K, n, b, ldb, out);
}
#endif

const pl_tile *pl_tile_get(pl_dtype dtype)
{
    static const pl_tile tiles[PL_N_ISA] = {
        [PL_ISA_GENERIC] = {4, 8, 1, product_generic, transpose_generic},
#if defined(__x86_64__)
        [PL_ISA_AVX2] = {4, 16, 1, product_avx2, transpose_avx2},
        [PL_ISA_AVX512] = {8, 32, 1, product_avx512, transpose_avx512},
#endif
    };

#if defined(__x86_64__)
    if (dtype == PL_BF16 && pl_isa_get() == PL_ISA_AVX512BF16)
        return &pl_tile_avx512bf16;
#else
    (void)dtype;
#endif
    return &tiles[pl_isa_vectors()];
}
