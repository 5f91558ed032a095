/* matmul_lanes16 -- vectors of 16 words: part of one, a square of 16; included by the files of the
 * ISAs that have them after TARGET. */

enum { LANES = 16 };

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

/** Words of two vectors by turns, of the lower or the upper half of each 16 bytes; pairs of words
 * likewise. */
TARGET PL_INLINE vec low_words(vec a, vec b)
{
    return (vec)_mm512_unpacklo_ps((__m512)a, (__m512)b);
}

TARGET PL_INLINE vec high_words(vec a, vec b)
{
    return (vec)_mm512_unpackhi_ps((__m512)a, (__m512)b);
}

TARGET PL_INLINE vec low_pairs(vec a, vec b)
{
    return (vec)_mm512_unpacklo_pd((__m512d)a, (__m512d)b);
}

TARGET PL_INLINE vec high_pairs(vec a, vec b)
{
    return (vec)_mm512_unpackhi_pd((__m512d)a, (__m512d)b);
}

/** Quarters of rows go to where their column's are, then squares of 4 x 4 words are transposed:
 * twice as fast as permutations of two vectors, on Zen 5. */
TARGET PL_INLINE void transpose_square(vec x[16])
{
    vec quarter[4][4]; /* [q][r]: quarter q of rows r, r + 4, r + 8, r + 12 */

#pragma GCC unroll 4
    for (int r = 0; r < 4; r++) {
        const __m512 a = (__m512)x[r], b = (__m512)x[r + 4];
        const __m512 c = (__m512)x[r + 8], d = (__m512)x[r + 12];
        const __m512 ab_low = _mm512_shuffle_f32x4(a, b, 0x44);
        const __m512 ab_high = _mm512_shuffle_f32x4(a, b, 0xee);
        const __m512 cd_low = _mm512_shuffle_f32x4(c, d, 0x44);
        const __m512 cd_high = _mm512_shuffle_f32x4(c, d, 0xee);

        quarter[0][r] = (vec)_mm512_shuffle_f32x4(ab_low, cd_low, 0x88);
        quarter[1][r] = (vec)_mm512_shuffle_f32x4(ab_low, cd_low, 0xdd);
        quarter[2][r] = (vec)_mm512_shuffle_f32x4(ab_high, cd_high, 0x88);
        quarter[3][r] = (vec)_mm512_shuffle_f32x4(ab_high, cd_high, 0xdd);
    }
#pragma GCC unroll 4
    for (int q = 0; q < 4; q++) {
        const vec *z = quarter[q];
        const vec ab_low = low_words(z[0], z[1]), ab_high = high_words(z[0], z[1]);
        const vec cd_low = low_words(z[2], z[3]), cd_high = high_words(z[2], z[3]);

        x[4 * q] = low_pairs(ab_low, cd_low);
        x[4 * q + 1] = high_pairs(ab_low, cd_low);
        x[4 * q + 2] = low_pairs(ab_high, cd_high);
        x[4 * q + 3] = high_pairs(ab_high, cd_high);
    }
}
