/* matmul_tile_avx512bf16 -- the tile of avx512 on pairs of bf16: one instruction multiplies 32
 * pairs' elements and adds them to 16 sums. */
#include "config.h"

#include "kernels/matmul_tile.h"

#include "kernels/lanes.h"
#include "src/base/bf16.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define TARGET __attribute__((target(PL_AVX512_ISA ",avx512bf16")))

#include "kernels/matmul_lanes16.h"

enum { ROWS = 14, WIDE_ROWS = 6, FEW_ROWS = 3, READS_PART = true };

typedef __m512i word_vec;

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

TARGET PL_INLINE void words(const int nv, const bool raw, const bool cut, const bool lone,
                            const char *b, int64_t ldb, int64_t n, word_vec b_k[4])
{
    const __mmask32 last = (__mmask32)((UINT64_C(1) << (n & 63)) - 1); /* cut: nv <= 2 */

    if (!raw) {
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++)
            b_k[v] = _mm512_loadu_si512(b + 64 * v);
        return;
    }
#pragma GCC unroll 2
    for (int v = 0; v < nv; v += 2, b += 64) {
        const __m512i above = cut ? _mm512_maskz_loadu_epi16(last, b) : _mm512_loadu_si512(b);
        const __m512i below = lone  ? _mm512_setzero_si512()
                              : cut ? _mm512_maskz_loadu_epi16(last, b + ldb)
                                    : _mm512_loadu_si512(b + ldb);

        pair(above, below, &b_k[v], nv > 1 ? &b_k[v + 1] : NULL);
    }
}

#include "kernels/matmul_tile_put.h"

/** Sixteen bf16 as pl_bf16_of_f32() rounds them. */
TARGET PL_INLINE __m256i rounded(__m512 x)
{
    const __m512i bits = _mm512_castps_si512(x), high = _mm512_srli_epi32(bits, 16);
    const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    const __m512i quiet = _mm512_or_si512(high, _mm512_set1_epi32(0x40));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);

    return _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(_mm512_srli_epi32(sum, 16), is_nan, quiet));
}

/** Two vectors in bf16. Sums of products alone are never denormal, so that the instruction, which
 * takes denormals for 0, may round them. */
TARGET PL_INLINE __m512i rounded_pair(bool adds, __m512 first, __m512 second)
{
    if (!adds)
        return (__m512i)_mm512_cvtne2ps_pbh(second, first);
    return _mm512_inserti64x4(_mm512_castsi256_si512(rounded(first)), rounded(second), 1);
}

/** Sixteen of 32 bf16, the lower or the upper half. */
TARGET PL_INLINE __m512 widened(__m256i half)
{
    return (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16);
}

/** put() for a c of bf16. */
TARGET PL_INLINE void put_rounded(const int m, const int nv, const pl_tile_call *t,
                                  vec sum[ROWS][4])
{
    const bool adds_sums = t->add != NULL, adds_residual = t->residual != NULL;
    const bool adds = adds_sums || adds_residual, whole = nv > 1 && t->n == nv * LANES;
    const __mmask32 last = (__mmask32)((UINT64_C(1) << (t->n & 63)) - 1); /* nv <= 2 */
    const __mmask32 there = whole ? 0xffffffff : last;
    const int64_t ldc = t->ldc, ld_add = adds_sums ? t->ld_add : 0;
    const int64_t ld_residual = adds_residual ? t->ld_residual : 0;
    const float *add = t->add;
    const pl_bf16 *residual = t->residual;
    pl_bf16 *c = t->c;

#pragma GCC unroll 16
    for (int i = 0; i < m; i++, c += ldc, add += ld_add, residual += ld_residual)
#pragma GCC unroll 2
        for (int v = 0; v < nv; v += 2) {
            __m512 first = (__m512)sum[i][v];
            __m512 second = nv > 1 ? (__m512)sum[i][v + 1] : _mm512_setzero_ps();

            if (adds_sums) {
                first =
                    _mm512_add_ps(first, _mm512_maskz_loadu_ps((__mmask16)there, add + LANES * v));
                if (nv > 1)
                    second = _mm512_add_ps(second, _mm512_maskz_loadu_ps((__mmask16)(there >> 16),
                                                                         add + LANES * (v + 1)));
            }
            if (adds_residual) {
                const __m512i more = _mm512_maskz_loadu_epi16(there, residual + LANES * v);

                first = _mm512_add_ps(first, widened(_mm512_castsi512_si256(more)));
                second = _mm512_add_ps(second, widened(_mm512_extracti64x4_epi64(more, 1)));
            }
            if (whole)
                _mm512_storeu_si512(c + LANES * v, rounded_pair(adds, first, second));
            else
                _mm512_mask_storeu_epi16(c + LANES * v, last, rounded_pair(adds, first, second));
        }
}

TARGET PL_INLINE vec add_dot(vec sum, word_vec a, word_vec b)
{
    return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}

TARGET PL_INLINE void end(const int m, const int nv, const pl_tile_call *t, vec sum[ROWS][4])
{
    if (t->rounds)
        put_rounded(m, nv, t, sum);
    else
        put_f32(m, nv, t, sum);
}

#include "kernels/matmul_tile_pairs.h"

static void transpose(int64_t K, int64_t n, const char *b, int64_t ldb, float *out)
{
    pl_matmul_tile_avx512.transpose(K, n, b, ldb, out); /* words are words */
}

TARGET static void columns(int64_t n_words, int64_t n, const char *rows, int64_t row_bytes,
                           float *out, int64_t width)
{
    const __mmask32 which = (__mmask32)((UINT64_C(1) << n) - 1);

    for (int64_t k = 0; k < n_words; k++, rows += 2 * row_bytes, out += width) {
        __builtin_prefetch(rows + PL_PACK_AHEAD * row_bytes);
        __builtin_prefetch(rows + (PL_PACK_AHEAD + 1) * row_bytes);
        const __m512i above = _mm512_maskz_loadu_epi16(which, rows);
        const __m512i below = _mm512_maskz_loadu_epi16(which, rows + row_bytes);
        __m512i first, second;

        pair(above, below, &first, &second);
        _mm512_storeu_si512(out, first);
        if (width == 2 * LANES)
            _mm512_storeu_si512(out + LANES, second);
    }
}

static void finish(const pl_tile_finish *f, int64_t m, float *out)
{
    pl_matmul_tile_avx512.finish(f, m, out);
}

const pl_matmul_tile pl_matmul_tile_avx512bf16 = {.rows = ROWS,
                                                  .wide_rows = WIDE_ROWS,
                                                  .few_rows = FEW_ROWS,
                                                  .lanes = LANES,
                                                  .pairs = true,
                                                  .rounds = true,
                                                  .reads_part = true,
                                                  .multiply = multiply,
                                                  .transpose = transpose,
                                                  .columns = columns,
                                                  .finish = finish};

#endif
