/* matmul_int8_vnni -- 14 rows of two vectors of 16: one instruction multiplies 64 bytes by 64 and
 * adds fours of them to 16 sums. It takes one side unsigned: a's bytes are 128 too large, which is
 * taken off the sums again. */
#include "config.h"

#include "kernels/matmul_int8_ways.h"

#include "kernels/matmul_int8_rows.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define TARGET __attribute__((target(PL_AVX512_ISA ",avx512vnni")))

enum { LANES = 16, ROWS = 14 };

TARGET PL_INLINE __m512i four(const char *p)
{
    int32_t x;

    memcpy(&x, p, sizeof x);
    return _mm512_set1_epi32(x);
}

TARGET PL_INLINE void tile(const int m, const int nv, const pl_int8_call *t)
{
    const pl_tile_call rows = {.a = t->a, .a_row = t->a_row};
    const int64_t n_words = t->words;
    pl_tile_rows a = pl_tile_rows_of(&rows);
    const int8_t *b = t->b;
    __m512i sum[ROWS][2];
    _Alignas(64) int32_t out[ROWS][2 * LANES];

#pragma GCC unroll 16
    for (int i = 0; i < m; i++)
#pragma GCC unroll 2
        for (int v = 0; v < nv; v++)
            sum[i][v] = _mm512_setzero_si512();
#pragma GCC unroll 2
    for (int64_t k = 0; k < n_words; k++, a.upper += 4, a.lower += 4, b += 8 * LANES) {
        __m512i b_k[2];

#pragma GCC unroll 2
        for (int v = 0; v < nv; v++)
            b_k[v] = _mm512_loadu_si512(b + 64 * v);
#pragma GCC unroll 16
        for (int i = 0; i < m; i++) {
            const __m512i a_ik = four(pl_tile_row(&a, i));

#pragma GCC unroll 2
            for (int v = 0; v < nv; v++)
                sum[i][v] = _mm512_dpbusd_epi32(sum[i][v], a_ik, b_k[v]);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < m; i++)
#pragma GCC unroll 2
        for (int v = 0; v < nv; v++)
            _mm512_store_si512(&out[i][v * LANES], sum[i][v]);
    finish(t, m, 2 * LANES, out[0]);
}

TARGET static void multiply(int m, const pl_int8_call *t)
{
    switch (m) {
    case 1:
        tile(1, 2, t);
        break;
    case 2:
        tile(2, 2, t);
        break;
    case 3:
        tile(3, 2, t);
        break;
    case 4:
        tile(4, 2, t);
        break;
    case 5:
        tile(5, 2, t);
        break;
    case 6:
        tile(6, 2, t);
        break;
    case 7:
        tile(7, 2, t);
        break;
    case 8:
        tile(8, 2, t);
        break;
    case 9:
        tile(9, 2, t);
        break;
    case 10:
        tile(10, 2, t);
        break;
    case 11:
        tile(11, 2, t);
        break;
    case 12:
        tile(12, 2, t);
        break;
    case 13:
        tile(13, 2, t);
        break;
    default:
        tile(14, 2, t);
        break;
    }
}

TARGET static float quantize(const pl_operand *x, int64_t i, int64_t K, void *out)
{
    return quantize_operand(true, x, i, K, out);
}

const pl_int8_tile pl_int8_tile_vnni = {.shape = {.rows = ROWS, .lanes = LANES},
                                        .a_bytes = 1,
                                        .a_offset = 128,
                                        .multiply = multiply,
                                        .quantize = quantize};

#endif
