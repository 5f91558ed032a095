/* matmul_tile_generic -- 6 rows of two vectors of 4, in portable vectors (SSE2, NEON): 12 sums, two
 * vectors of b, one word of a. */
#include "config.h"

#include "kernels/matmul_tile.h"

#include "kernels/lanes.h"

#include <string.h>

#define TARGET

enum { LANES = 4, ROWS = 6, WIDE_ROWS = 2 };

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

/** Swaps blocks of 1, 2 lanes across the diagonal. */
PL_INLINE void transpose_square(vec x[4])
{
    static const index_vec low[2] = {{0, 4, 2, 6}, {0, 1, 4, 5}};
    static const index_vec high[2] = {{1, 5, 3, 7}, {2, 3, 6, 7}};

#pragma GCC unroll 4
    for (int s = 0; s < 2; s++)
#pragma GCC unroll 16
        for (int i = 0; i < 4; i++)
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

const pl_matmul_tile pl_matmul_tile_generic = {.rows = ROWS,
                                               .wide_rows = WIDE_ROWS,
                                               .lanes = LANES,
                                               .reads_part = false,
                                               .multiply = multiply,
                                               .transpose = transpose};
