/* matmul_tile_avx512bf16 -- the tile of avx512 on pairs of bf16: one instruction multiplies 32
 * pairs' elements and adds them to 16 sums. */
#include "config.h"

#include "kernels/matmul_tile.h"

#include "kernels/lanes.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define TARGET                                                                                     \
    __attribute__((                                                                                \
        target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,prefer-vector-width=512")))

enum { LANES = 16, ROWS = 14, WIDE_ROWS = 6 };

TARGET PL_INLINE __m512i word(const char *p)
{
    int32_t x;

    memcpy(&x, p, sizeof x);
    return _mm512_set1_epi32(x);
}

/** Words of the pairs (above, below), one vector or both of 32 columns. */
TARGET PL_INLINE void pair(__m512i above, __m512i below, __m512i *first, __m512i *second)
{
    const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40,
                                         8, 39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i sixteen = _mm512_set1_epi16(16);

    *first = _mm512_permutex2var_epi16(above, low, below);
    if (second != NULL)
        *second = _mm512_permutex2var_epi16(above, _mm512_add_epi16(low, sixteen), below);
}

/** The words of one k: read, or made of two rows (the second is left out when `lone`). */
TARGET PL_INLINE void words(const int nv, const bool raw, bool lone, const char *b, int64_t ldb,
                            __mmask16 last, __mmask32 last_raw, __m512i b_k[4])
{
    if (!raw) {
#pragma GCC unroll 4
        for (int v = 0; v < nv - 1; v++)
            b_k[v] = _mm512_loadu_si512(b + 64 * v);
        b_k[nv - 1] = _mm512_maskz_loadu_epi32(last, b + 64 * (nv - 1));
        return;
    }
    const char *below = lone ? b : b + ldb;
    const __mmask32 below_raw = lone ? 0 : last_raw, all = lone ? 0 : (__mmask32)-1;

    if (nv == 4)
        pair(_mm512_loadu_si512(b), _mm512_maskz_loadu_epi16(all, below), &b_k[0], &b_k[1]);
    const int64_t at = nv == 4 ? 64 : 0;
    const int v = nv == 4 ? 2 : 0;

    pair(_mm512_maskz_loadu_epi16(last_raw, b + at),
         _mm512_maskz_loadu_epi16(below_raw, below + at), &b_k[v], nv > 1 ? &b_k[v + 1] : NULL);
}

/** The tile of m rows by nv vectors; m, nv, raw and keeps are constants where it is inlined. */
TARGET PL_INLINE void tile(const int m, const int nv, const bool raw, const bool keeps,
                           const pl_tile_call *t)
{
    const int64_t n_last = t->n - (nv - 1) * LANES;
    const __mmask16 last = (__mmask16)((1u << n_last) - 1);
    const __mmask32 last_raw = (__mmask32)((UINT64_C(1) << (t->n - (nv == 4 ? 32 : 0))) - 1);
    const int64_t K = t->K, a_row = t->a_row, a_k = t->a_k, ldb = t->ldb, ldc = t->ldc;
    const int64_t b_step = raw ? 2 * ldb : ldb;
    const char *a = t->a, *b = t->b;
    float *keep = t->keep, *c = t->c;
    const bool accumulate = t->accumulate;
    __m512 sum[ROWS][4];

#pragma GCC unroll 16
    for (int i = 0; i < m; i++) {
        __builtin_prefetch(c + i * ldc, 1);
        __builtin_prefetch(c + i * ldc + (nv - 1) * LANES, 1);
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            sum[i][v] = _mm512_setzero_ps();
    }
    for (int64_t k = 0; k < K; k += raw ? 2 : 1, a += a_k, b += b_step) {
        __m512i b_k[4];

        words(nv, raw, raw && k + 1 == K, b, ldb, last, last_raw, b_k);
        if (keeps) {
#pragma GCC unroll 4
            for (int v = 0; v < nv; v++)
                _mm512_storeu_si512(keep + LANES * v, b_k[v]);
            keep += 2 * LANES;
        }
#pragma GCC unroll 16
        for (int i = 0; i < m; i++) {
            const __m512i a_ik = word(a + i * a_row);

#pragma GCC unroll 4
            for (int v = 0; v < nv; v++)
                sum[i][v] = _mm512_dpbf16_ps(sum[i][v], (__m512bh)a_ik, (__m512bh)b_k[v]);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < m; i++, c += ldc) {
#pragma GCC unroll 4
        for (int v = 0; v < nv - 1; v++) {
            if (accumulate)
                sum[i][v] = _mm512_add_ps(sum[i][v], _mm512_loadu_ps(c + LANES * v));
            _mm512_storeu_ps(c + LANES * v, sum[i][v]);
        }
        if (accumulate)
            sum[i][nv - 1] =
                _mm512_add_ps(sum[i][nv - 1], _mm512_maskz_loadu_ps(last, c + LANES * (nv - 1)));
        _mm512_mask_storeu_ps(c + LANES * (nv - 1), last, sum[i][nv - 1]);
    }
}

TARGET PL_INLINE void narrow(int m, const int nv, const bool raw, const bool keeps,
                             const pl_tile_call *t)
{
    switch (m) {
    case 1:
        tile(1, nv, raw, keeps, t);
        break;
    case 2:
        tile(2, nv, raw, keeps, t);
        break;
    case 3:
        tile(3, nv, raw, keeps, t);
        break;
    case 4:
        tile(4, nv, raw, keeps, t);
        break;
    case 5:
        tile(5, nv, raw, keeps, t);
        break;
    case 6:
        tile(6, nv, raw, keeps, t);
        break;
    case 7:
        tile(7, nv, raw, keeps, t);
        break;
    case 8:
        tile(8, nv, raw, keeps, t);
        break;
    case 9:
        tile(9, nv, raw, keeps, t);
        break;
    case 10:
        tile(10, nv, raw, keeps, t);
        break;
    case 11:
        tile(11, nv, raw, keeps, t);
        break;
    case 12:
        tile(12, nv, raw, keeps, t);
        break;
    case 13:
        tile(13, nv, raw, keeps, t);
        break;
    default:
        tile(14, nv, raw, keeps, t);
        break;
    }
}

TARGET static void wide(int m, const pl_tile_call *t)
{
    switch (m) {
    case 1:
        tile(1, 4, true, false, t);
        break;
    case 2:
        tile(2, 4, true, false, t);
        break;
    case 3:
        tile(3, 4, true, false, t);
        break;
    case 4:
        tile(4, 4, true, false, t);
        break;
    case 5:
        tile(5, 4, true, false, t);
        break;
    default:
        tile(6, 4, true, false, t);
        break;
    }
}

TARGET static void one(int m, const pl_tile_call *t)
{
    narrow(m, 1, false, false, t);
}

TARGET static void one_raw(int m, const pl_tile_call *t)
{
    narrow(m, 1, true, false, t);
}

TARGET static void one_kept(int m, const pl_tile_call *t)
{
    narrow(m, 1, true, true, t);
}

TARGET static void two(int m, const pl_tile_call *t)
{
    narrow(m, 2, false, false, t);
}

TARGET static void two_raw(int m, const pl_tile_call *t)
{
    narrow(m, 2, true, false, t);
}

TARGET static void two_kept(int m, const pl_tile_call *t)
{
    narrow(m, 2, true, true, t);
}

static void multiply(int m, int n_vectors, const pl_tile_call *t)
{
    if (n_vectors == 4)
        wide(m, t);
    else if (n_vectors == 2)
        (t->keep != NULL ? two_kept : t->raw ? two_raw : two)(m, t);
    else
        (t->keep != NULL ? one_kept : t->raw ? one_raw : one)(m, t);
}

static void transpose(int64_t K, int64_t n, const char *b, int64_t ldb, float *out)
{
    pl_matmul_tile_avx512.transpose(K, n, b, ldb, out); /* words are words */
}

const pl_matmul_tile pl_matmul_tile_avx512bf16 = {.rows = ROWS,
                                                  .wide_rows = WIDE_ROWS,
                                                  .lanes = LANES,
                                                  .pairs = true,
                                                  .reads_part = true,
                                                  .multiply = multiply,
                                                  .transpose = transpose};

#endif
