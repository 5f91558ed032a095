/* matmul_tile_generic -- 6 rows of two vectors of 4, in portable vectors (SSE2, NEON): 12 sums, two
 * vectors of b, one word of a. */
#include "config.h"

#include "kernels/matmul_tile.h"

#include "kernels/lanes.h"

#include <string.h>

#define TARGET

enum { LANES = 4, ROWS = 6, WIDE_ROWS = 2, FEW_ROWS = 2, SWAPS = 2, READS_PART = false };

typedef float vec __attribute__((vector_size(16)));
typedef int32_t index_vec __attribute__((vector_size(16)));
typedef size_t part; /* bytes */

PL_INLINE part part_of(int64_t n)
{
    return 4 * (size_t)n;
}

PL_INLINE vec load_part(const float *p, part which)
{
    vec x = {0};

    memcpy(&x, p, which);
    return x;
}

PL_INLINE void store_part(float *p, part which, vec x)
{
    memcpy(p, &x, which);
}

/** Which lanes of two vectors swap blocks of 1, 2 lanes across the diagonal. */
static const index_vec swap_low[2] = {{0, 4, 2, 6}, {0, 1, 4, 5}};
static const index_vec swap_high[2] = {{1, 5, 3, 7}, {2, 3, 6, 7}};

#include "kernels/matmul_square_swaps.h"
#include "kernels/matmul_tile_body.h"

const pl_matmul_tile pl_matmul_tile_generic = {.rows = ROWS,
                                               .wide_rows = WIDE_ROWS,
                                               .few_rows = FEW_ROWS,
                                               .lanes = LANES,
                                               .reads_part = READS_PART,
                                               .multiply = multiply,
                                               .transpose = transpose,
                                               .columns = columns,
                                               .finish = finish};
