/* matmul_tile_avx2 -- 6 rows of two vectors of 8: 12 sums, two vectors of b, one word of a. */
#include "config.h"

#include "kernels/matmul_tile.h"

#include "kernels/lanes.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define TILE pl_matmul_tile_avx2
#define TARGET PL_AVX2

enum { LANES = 8, ROWS = 6, WIDE_ROWS = 2, FEW_ROWS = 2, SWAPS = 3, READS_PART = false };

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

/** Which lanes of two vectors swap blocks of 1, 2, 4 lanes across the diagonal. */
static const index_vec swap_low[3] = {
    {0, 8, 2, 10, 4, 12, 6, 14}, {0, 1, 8, 9, 4, 5, 12, 13}, {0, 1, 2, 3, 8, 9, 10, 11}};
static const index_vec swap_high[3] = {
    {1, 9, 3, 11, 5, 13, 7, 15}, {2, 3, 10, 11, 6, 7, 14, 15}, {4, 5, 6, 7, 12, 13, 14, 15}};

#include "kernels/matmul_square_swaps.h"
#include "kernels/matmul_tile_body.h"

#endif
