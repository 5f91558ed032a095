/* tile -- small products of operands that sit in cache: the register tiles of attention. */
#ifndef PURLIN_KERNELS_TILE_H
#define PURLIN_KERNELS_TILE_H

#include "src/base/dtype.h"

#include <stdbool.h>
#include <stdint.h>

/** c[rows, cols] = scale a[rows, K] . b[K, cols], or += a . b when `accumulate` (scale is not
 * used).
 *
 * a and b hold words: an f32, or a pair of bf16 that lie next to each other along K (the sum is
 * over both). Word (i, k) of a is at a[i * row_step + k * k_step]; rows of b and of c are
 * contiguous, ldb and ldc words apart. Order: k ascending; with pairs, the sum of the second
 * elements' products on that of the first (as vdpbf16ps has it: subnormals are zeros). Cost: 2 rows
 * cols K FLOPs, twice that with pairs. */
typedef void pl_tile_function(int64_t K, const float *a, int64_t row_step, int64_t k_step,
                              const float *b, int64_t ldb, float scale, bool accumulate, float *c,
                              int64_t ldc);

/** A register tile; rows divides cols, cols divides PL_TILE_MOST, rows is even. */
typedef struct {
    int64_t rows, cols;
    int64_t pairs; /* elements in a word of a and b: 1 (f32) or 2 (bf16) */
    pl_tile_function *product;
    /** out[K, cols] = the transpose of n <= cols rows of K words, ldb bytes apart; zeros beyond n.
     */
    void (*transpose)(int64_t K, int64_t n, const char *b, int64_t ldb, float *out);
} pl_tile;

enum { PL_TILE_MOST = 32 };

extern const pl_tile pl_tile_avx512bf16; /* on x86-64 */

/** The tile of the ISA in use for operands of `dtype`; of bf16 on an ISA without its products, the
 * tile is that of f32: widen them. Local. */
const pl_tile *pl_tile_get(pl_dtype dtype);

#endif
