/* matmul_tile -- the innermost product: a few rows of c times a few vectors of columns, all sums in
 * registers. One file per ISA; the loop nest above it is one and the same.
 *
 * A tile works on words of four bytes: an f32, or two neighbours along K of bf16. */
#ifndef PURLIN_KERNELS_MATMUL_TILE_H
#define PURLIN_KERNELS_MATMUL_TILE_H

#include <stdbool.h>
#include <stdint.h>

/** c[m, n] = or += a[m, K] . b[K, n]; each element is one chain of fused multiply-adds, k
 * ascending from 0, added to c in the end. Distances in bytes but for ldc. */
typedef struct {
    int64_t K;     /* words along K (rows of raw bf16: elements, may be odd) */
    const char *a; /* word (i, k) at a + i * a_row + k * a_k */
    int64_t a_row, a_k;
    const char *b; /* row k at b + k * ldb, contiguous */
    int64_t ldb;
    bool raw;    /* bf16 only: b's rows are elements, not yet words of pairs */
    float *keep; /* NULL; or b's words are stored here too, as a packed panel */
    float *c;
    int64_t ldc; /* elements */
    int64_t n;   /* columns; at most n_vectors * lanes, more than a vector less */
    bool accumulate;
} pl_tile_call;

typedef struct {
    int rows;        /* at most, in a tile of two vectors */
    int wide_rows;   /* at most, in one of four vectors (which keeps nothing) */
    int lanes;       /* of a vector; a packed panel has two vectors of columns */
    bool pairs;      /* words are pairs of bf16 */
    bool reads_part; /* reads n columns of b, not whole vectors */
    /** The tile of m rows, n_vectors 1, 2 or 4. */
    void (*multiply)(int m, int n_vectors, const pl_tile_call *call);
    /** out[K, 2 lanes] = the transpose of n rows of K words, ldb bytes apart; zeros beyond n. */
    void (*transpose)(int64_t K, int64_t n, const char *b, int64_t ldb, float *out);
} pl_matmul_tile;

enum { PL_MATMUL_ROWS = 14, PL_MATMUL_LANES = 16 }; /* at most, on any ISA */

extern const pl_matmul_tile pl_matmul_tile_generic, pl_matmul_tile_avx2, pl_matmul_tile_avx512,
    pl_matmul_tile_avx512bf16;

#endif
