/* tile_avx512bf16 -- the tile of avx512 on pairs of bf16. */
#include "config.h"

#include "kernels/tile.h"

#include "kernels/lanes.h"
#include "kernels/matmul_tile.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define TARGET __attribute__((target(PL_AVX512_ISA ",avx512bf16")))

enum { MR = 8, LANES = 16 };

/** A pair in every lane. */
TARGET PL_INLINE __m512bh spread(const float *word)
{
    int32_t bits;

    memcpy(&bits, word, sizeof bits);
    return (__m512bh)_mm512_set1_epi32(bits);
}

TARGET PL_INLINE void put(bool accumulate, __m512 scale, __m512 sum, float *c)
{
    _mm512_storeu_ps(c, accumulate ? _mm512_add_ps(sum, _mm512_loadu_ps(c))
                                   : _mm512_mul_ps(sum, scale));
}

TARGET static void product(int64_t K, const float *a, int64_t row_step, int64_t k_step,
                           const float *b, int64_t ldb, float scale, bool accumulate, float *c,
                           int64_t ldc)
{
    const __m512 factor = _mm512_set1_ps(scale);
    __m512 sum[MR][2];

#pragma GCC unroll 8
    for (int i = 0; i < MR; i++)
        sum[i][0] = sum[i][1] = _mm512_setzero_ps();
    for (int64_t k = 0; k < K; k++, a += k_step, b += ldb) {
        const __m512bh b_0 = (__m512bh)_mm512_loadu_si512(b);
        const __m512bh b_1 = (__m512bh)_mm512_loadu_si512(b + LANES);

#pragma GCC unroll 8
        for (int i = 0; i < MR; i++) {
            const __m512bh a_i = spread(a + i * row_step);

            sum[i][0] = _mm512_dpbf16_ps(sum[i][0], a_i, b_0);
            sum[i][1] = _mm512_dpbf16_ps(sum[i][1], a_i, b_1);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++, c += ldc) {
        put(accumulate, factor, sum[i][0], c);
        put(accumulate, factor, sum[i][1], c + LANES);
    }
}

static void transpose(int64_t K, int64_t n, const char *b, int64_t ldb, float *out)
{
    pl_matmul_tile_avx512.transpose(K, n, b, ldb, out); /* words are words */
}

const pl_tile pl_tile_avx512bf16 = {MR, 2 * LANES, 2, product, transpose};

#endif
