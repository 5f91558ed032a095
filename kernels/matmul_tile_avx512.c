/* matmul_tile_avx512 -- 14 rows of two vectors of 16: 28 sums, two vectors of b, one word of a. */
#include "config.h"

#include "kernels/matmul_tile.h"

#include "kernels/lanes.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define TARGET PL_AVX512

enum { LANES = 16, ROWS = 14, WIDE_ROWS = 6, FEW_ROWS = 3, READS_PART = true };

typedef float vec __attribute__((vector_size(64)));
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

#include "kernels/matmul_square_avx512.h"
#include "kernels/matmul_tile_body.h"

const pl_matmul_tile pl_matmul_tile_avx512 = {.rows = ROWS,
                                              .wide_rows = WIDE_ROWS,
                                              .few_rows = FEW_ROWS,
                                              .lanes = LANES,
                                              .reads_part = READS_PART,
                                              .multiply = multiply,
                                              .transpose = transpose,
                                              .columns = columns,
                                              .finish = finish};

#endif
