/* matmul_tile_neonbf16 -- the tile of neon on pairs of bf16: bfdot multiplies 8 elements and adds
 * them to 4 sums. */
#include "config.h"

#include "kernels/matmul_tile.h"

#include "kernels/lanes.h"

#if defined(__aarch64__)

#include <arm_neon.h>
#include <string.h>

#define TARGET __attribute__((target("arch=armv8.2-a+bf16")))

#include "kernels/matmul_lanes4.h"

enum { ROWS = 14, WIDE_ROWS = 6, FEW_ROWS = 3, READS_PART = false };

typedef uint32x4_t word_vec;

#include "kernels/matmul_tile_put.h"

TARGET PL_INLINE word_vec word(const char *p)
{
    uint32_t x;

    memcpy(&x, p, sizeof x);
    return vdupq_n_u32(x);
}

/** Words of the pairs (above, below) of 8 columns. */
TARGET PL_INLINE void pair(uint16x8_t above, uint16x8_t below, word_vec *first, word_vec *second)
{
    *first = vreinterpretq_u32_u16(vzip1q_u16(above, below));
    *second = vreinterpretq_u32_u16(vzip2q_u16(above, below));
}

TARGET PL_INLINE uint16x8_t halves(const char *row)
{
    uint16x8_t x;

    memcpy(&x, row, sizeof x);
    return x;
}

TARGET PL_INLINE void words(const int nv, const bool raw, const bool cut, const bool lone,
                            const char *b, int64_t ldb, int64_t n, word_vec b_k[4])
{
    (void)cut; /* never: READS_PART is false */
    (void)n;
    if (!raw) {
        memcpy(b_k, b, (size_t)nv * sizeof *b_k);
        return;
    }
#pragma GCC unroll 2
    for (int v = 0; v < nv; v += 2, b += 16) {
        word_vec two[2];

        pair(halves(b), lone ? vdupq_n_u16(0) : halves(b + ldb), &two[0], &two[1]);
        memcpy(b_k + v, two, (nv > 1 ? 2 : 1) * sizeof *two);
    }
}

TARGET PL_INLINE vec add_dot(vec sum, word_vec a, word_vec b)
{
    return (vec)vbfdotq_f32((float32x4_t)sum, (bfloat16x8_t)a, (bfloat16x8_t)b);
}

TARGET PL_INLINE void end(const int m, const int nv, const pl_tile_call *t, vec sum[ROWS][4])
{
    put_f32(m, nv, t, sum);
}

#include "kernels/matmul_tile_pairs.h"

static void transpose(int64_t K, int64_t n, const char *b, int64_t ldb, float *out)
{
    pl_matmul_tile_neon.transpose(K, n, b, ldb, out); /* words are words */
}

/** Up to 8 elements of a row, zeros behind them. */
TARGET PL_INLINE uint16x8_t some_halves(const char *row, int64_t n)
{
    uint16x8_t x = vdupq_n_u16(0);

    memcpy(&x, row, n < 8 ? (size_t)n * 2 : sizeof x);
    return x;
}

TARGET static void columns(int64_t n_words, int64_t n, const char *rows, int64_t row_bytes,
                           float *out, int64_t width)
{
    for (int64_t k = 0; k < n_words; k++, rows += 2 * row_bytes)
        for (int64_t j = 0; j < width; j += 2 * LANES, out += 2 * LANES) {
            const int64_t left = n > j ? n - j : 0;
            word_vec two[2];

            pair(some_halves(rows + 2 * j, left), some_halves(rows + row_bytes + 2 * j, left),
                 &two[0], &two[1]);
            memcpy(out, two, sizeof two);
        }
}

static void finish(const pl_tile_finish *f, int64_t m, float *out)
{
    pl_matmul_tile_neon.finish(f, m, out);
}

const pl_matmul_tile pl_matmul_tile_neonbf16 = {.rows = ROWS,
                                                .wide_rows = WIDE_ROWS,
                                                .few_rows = FEW_ROWS,
                                                .lanes = LANES,
                                                .pairs = true,
                                                .reads_part = READS_PART,
                                                .multiply = multiply,
                                                .transpose = transpose,
                                                .columns = columns,
                                                .finish = finish};

#endif
