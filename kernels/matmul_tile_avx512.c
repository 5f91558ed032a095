/* matmul_tile_avx512 -- 14 rows of two vectors of 16: 28 sums, two vectors of b, one word of a. */
#include "config.h"

#include "kernels/matmul_tile.h"

#include "kernels/lanes.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define TARGET PL_AVX512

enum { LANES = 16, ROWS = 14, WIDE_ROWS = 6 };

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

/** Swaps blocks of 1, 2, 4, 8 lanes across the diagonal. */
TARGET PL_INLINE void transpose_square(vec x[16])
{
    static const index_vec low[4] = {
        {0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30},
        {0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29},
        {0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27},
        {0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23},
    };
    static const index_vec high[4] = {
        {1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31},
        {2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31},
        {4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31},
        {8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31},
    };

#pragma GCC unroll 4
    for (int s = 0; s < 4; s++)
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++)
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
    case 6:
        tile(6, nv, keeps, cut, t);
        break;
    case 7:
        tile(7, nv, keeps, cut, t);
        break;
    case 8:
        tile(8, nv, keeps, cut, t);
        break;
    case 9:
        tile(9, nv, keeps, cut, t);
        break;
    case 10:
        tile(10, nv, keeps, cut, t);
        break;
    case 11:
        tile(11, nv, keeps, cut, t);
        break;
    case 12:
        tile(12, nv, keeps, cut, t);
        break;
    case 13:
        tile(13, nv, keeps, cut, t);
        break;
    default:
        tile(14, nv, keeps, cut, t);
        break;
    }
}

TARGET static void four(int m, const pl_tile_call *t)
{
    switch (m) {
    case 1:
        tile(1, 4, false, false, t);
        break;
    case 2:
        tile(2, 4, false, false, t);
        break;
    case 3:
        tile(3, 4, false, false, t);
        break;
    case 4:
        tile(4, 4, false, false, t);
        break;
    case 5:
        tile(5, 4, false, false, t);
        break;
    default:
        tile(6, 4, false, false, t);
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

TARGET static void one_cut(int m, const pl_tile_call *t)
{
    narrow(m, 1, false, true, t);
}

TARGET static void two_cut(int m, const pl_tile_call *t)
{
    narrow(m, 2, false, true, t);
}

static void multiply(int m, int n_vectors, const pl_tile_call *t)
{
    const bool cut = t->raw && t->n != n_vectors * LANES;

    if (n_vectors == 4)
        four(m, t);
    else if (n_vectors == 1)
        (cut ? one_cut : one)(m, t);
    else
        (t->keep != NULL ? two_kept : cut ? two_cut : two)(m, t);
}

const pl_matmul_tile pl_matmul_tile_avx512 = {.rows = ROWS,
                                              .wide_rows = WIDE_ROWS,
                                              .lanes = LANES,
                                              .reads_part = true,
                                              .multiply = multiply,
                                              .transpose = transpose};

#endif
