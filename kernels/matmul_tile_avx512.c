/* matmul_tile_avx512 -- 14 rows of two vectors of 16: 28 sums, two vectors of b, one word of a. */
#include "config.h"

#include "kernels/matmul_tile.h"

#include "kernels/lanes.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define TARGET PL_AVX512

enum { LANES = 16, ROWS = 14, WIDE_ROWS = 6, SWAPS = 4, READS_PART = true };

typedef float vec __attribute__((vector_size(64)));
typedef int32_t index_vec __attribute__((vector_size(64)));
typedef __mmask16 part;

TARGET PL_INLINE part part_of(int64_t n)
{
    return (part)((1u << n) - 1);
}

TARGET PL_INLINE vec load_part(const float *p, part which)
{
    return (vec)_mm512_maskz_loadu_ps(which, p);
}

TARGET PL_INLINE void store_part(float *p, part which, vec x)
{
    _mm512_mask_storeu_ps(p, which, (__m512)x);
}

/** Which lanes of two vectors swap blocks of 1, 2, 4, 8 lanes across the diagonal. */
static const index_vec swap_low[4] = {
    {0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30},
    {0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29},
    {0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27},
    {0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23},
};
static const index_vec swap_high[4] = {
    {1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31},
    {2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31},
    {4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31},
    {8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31},
};

#include "kernels/matmul_tile_body.h"

const pl_matmul_tile pl_matmul_tile_avx512 = {.rows = ROWS,
                                              .wide_rows = WIDE_ROWS,
                                              .lanes = LANES,
                                              .reads_part = READS_PART,
                                              .multiply = multiply,
                                              .transpose = transpose,
                                              .columns = columns,
                                              .finish = finish};

#endif
