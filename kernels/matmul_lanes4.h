/* matmul_lanes4 -- portable vectors of 4 words: part of one, a square of 4; included by the files
 * of the ISAs that have them after TARGET. */

enum { LANES = 4, SWAPS = 2 };

typedef float vec __attribute__((vector_size(16)));
typedef int32_t index_vec __attribute__((vector_size(16)));
typedef size_t part; /* bytes */

TARGET PL_INLINE part part_of(int64_t n)
{
    return 4 * (size_t)n;
}

TARGET PL_INLINE vec load_part(const float *p, part which)
{
    vec x = {0};

    memcpy(&x, p, which);
    return x;
}

TARGET PL_INLINE void store_part(float *p, part which, vec x)
{
    memcpy(p, &x, which);
}

/** Which lanes of two vectors swap blocks of 1, 2 lanes across the diagonal. */
static const index_vec swap_low[2] = {{0, 4, 2, 6}, {0, 1, 4, 5}};
static const index_vec swap_high[2] = {{1, 5, 3, 7}, {2, 3, 6, 7}};

#include "kernels/matmul_square_swaps.h"
