/* matmul_tile_avx2 -- 6 rows of two vectors of 8: 12 sums, two vectors of b, one word of a. */
#include "config.h"

#include "kernels/matmul_tile.h"

#include "kernels/lanes.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define TARGET PL_AVX2

enum { LANES = 8, ROWS = 6, WIDE_ROWS = 2 };

typedef float vec __attribute__((vector_size(32)));
typedef int32_t index_vec __attribute__((vector_size(32)));
typedef __m256i part;

TARGET PL_INLINE part part_of(int64_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

TARGET PL_INLINE vec load_part(const float *p, part which)
{
    return (vec)_mm256_maskload_ps(p, which);
}

TARGET PL_INLINE void store_part(float *p, part which, vec x)
{
    _mm256_maskstore_ps(p, which, (__m256)x);
}

/** Swaps blocks of 1, 2, 4 lanes across the diagonal. */
TARGET PL_INLINE void transpose_square(vec x[8])
{
    static const index_vec low[3] = {
        {0, 8, 2, 10, 4, 12, 6, 14}, {0, 1, 8, 9, 4, 5, 12, 13}, {0, 1, 2, 3, 8, 9, 10, 11}};
    static const index_vec high[3] = {
        {1, 9, 3, 11, 5, 13, 7, 15}, {2, 3, 10, 11, 6, 7, 14, 15}, {4, 5, 6, 7, 12, 13, 14, 15}};

#pragma GCC unroll 4
    for (int s = 0; s < 3; s++)
#pragma GCC unroll 16
        for (int i = 0; i < 8; i++)
            if ((i & 1 << s) == 0) {
                const vec a = x[i], b = x[i + (1 << s)];

                x[i] = __builtin_shuffle(a, b, low[s]);
                x[i + (1 << s)] = __builtin_shuffle(a, b, high[s]);
            }
}

#include "kernels/matmul_tile_body.h"

TARGET PL_INLINE void narrow(int m, const int nv, const bool keeps, const bool cut,
                             const pl_tile_call *t)
{
    switch (m) {
    case 1:
        tile(1, nv, keeps, cut, t);
        break;
    case 2:
        tile(2, nv, keeps, cut, t);
        break;
    case 3:
        tile(3, nv, keeps, cut, t);
        break;
    case 4:
        tile(4, nv, keeps, cut, t);
        break;
    case 5:
        tile(5, nv, keeps, cut, t);
        break;
    default:
        tile(6, nv, keeps, cut, t);
        break;
    }
}

TARGET static void four(int m, const pl_tile_call *t)
{
    switch (m) {
    case 1:
        tile(1, 4, false, false, t);
        break;
    default:
        tile(2, 4, false, false, t);
        break;
    }
}

TARGET static void one(int m, const pl_tile_call *t)
{
    narrow(m, 1, false, false, t);
}

TARGET static void two(int m, const pl_tile_call *t)
{
    narrow(m, 2, false, false, t);
}

TARGET static void two_kept(int m, const pl_tile_call *t)
{
    narrow(m, 2, true, false, t);
}

static void multiply(int m, int n_vectors, const pl_tile_call *t)
{
    if (n_vectors == 4)
        four(m, t);
    else if (n_vectors == 1)
        one(m, t);
    else
        (t->keep != NULL ? two_kept : two)(m, t);
}

const pl_matmul_tile pl_matmul_tile_avx2 = {.rows = ROWS,
                                            .wide_rows = WIDE_ROWS,
                                            .lanes = LANES,
                                            .reads_part = false,
                                            .multiply = multiply,
                                            .transpose = transpose};

#endif
