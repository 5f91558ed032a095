/* matmul_tile -- the innermost product: a few rows of c times a few vectors of columns, all sums in
 * registers. One file per ISA; the loop nest above it is one and the same.
 *
 * A tile works on words of four bytes: an f32, or two neighbours along K of bf16. */
#ifndef PURLIN_KERNELS_MATMUL_TILE_H
#define PURLIN_KERNELS_MATMUL_TILE_H

#include "src/base/bf16.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/** What is to be read after a tile, asked for while it computes: rows, a few cache lines at a time.
 */
typedef struct {
    const char *row;
    int64_t n_rows, step; /* rows left, bytes between them */
    int64_t length, done; /* bytes of a row, those asked for */
    int64_t n_lines;      /* at a time */
} pl_tile_ahead;

/** c[m, n] = add + a[m, K] . b[K, n]; each element is one chain of fused multiply-adds, k
 * ascending from 0, what is added comes last. Distances in bytes but for ldc and ld_add. */
typedef struct {
    int64_t K;     /* words along K; of raw bf16 elements, which may be odd */
    const char *a; /* word (i, k) at a + i * a_row + k * a_k */
    int64_t a_row, a_k;
    const char *b; /* row k at b + k * ldb, contiguous */
    int64_t ldb;
    bool along;  /* but of b in place along K, word (k, j) is at b + 4 k + j * ldb */
    bool raw;    /* b is in place: no more than n columns may be read, bf16 is not yet paired */
    float *keep; /* NULL; or words of b, which is raw, are stored here too, as a panel */
    void *c;     /* f32 */
    bool rounds; /* or bf16, to nearest even */
    int64_t ldc; /* elements */
    int64_t n;   /* columns; at most n_vectors * lanes, more than a vector less */
    const float *add; /* [m, n], added to the sums in the end; may be c; or NULL */
    int64_t ld_add;
    const pl_bf16 *residual; /* [m, n], added after that where c is bf16; or NULL */
    int64_t ld_residual;
    pl_tile_ahead *ahead; /* or NULL */
} pl_tile_call;

/* Floats between the rows of a tile whose sums go elsewhere first. */
enum { PL_TILE_ROW = 4 * 16 };

/** Where such a tile's sums, [m, n] in rows of PL_TILE_ROW, end: all distances in elements. */
typedef struct {
    int64_t n;
    const float *sums_in; /* of earlier blocks of K, added; or NULL */
    float *sums_out;      /* for the blocks of K to come; or NULL: they are c */
    int64_t sums_row;
    const void *add; /* of c's type, added after that; or NULL */
    int64_t add_row, add_column;
    void *c;
    int64_t c_row, c_column;
    bool is_bf16; /* c, rounded to nearest even */
} pl_tile_finish;

/** A panel of b is two vectors wide, [K, 2 lanes], what is beyond n is 0. */
typedef struct {
    int rows;        /* at most, in a tile of one or two vectors */
    int wide_rows;   /* at most, in one of four vectors, whose b is raw */
    int few_rows;    /* at most, where b is `along` */
    int lanes;       /* of a vector */
    bool pairs;      /* words are pairs of bf16 */
    bool rounds;     /* c may be bf16 */
    bool reads_part; /* b may be raw also where n is not a multiple of lanes */
    /** The tile of m rows, n_vectors 1, 2 or 4; one of 4, and one that keeps, has no part. */
    void (*multiply)(int m, int n_vectors, const pl_tile_call *call);
    /** One row of f32 (NULL in tiles of pairs), n columns, K >= 1: sums[n] = a[K] . b[K, n], rows of
     * b ldb bytes apart, each sum one chain as in multiply(). */
    void (*single)(int64_t K, int64_t n, const float *a, const char *b, int64_t ldb, float *sums);
    /** sums[n] = b[n, K] . a[K], each sum PL_DOT_CHAINS chains (see matmul_single.h). */
    void (*dots)(int64_t K, int64_t n, const float *a, const char *b, int64_t ldb, float *sums);
    /** out[K, 2 lanes] = the transpose of n rows of K words, ldb bytes apart; zeros beyond n. */
    void (*transpose)(int64_t K, int64_t n, const char *b, int64_t ldb, float *out);
    /** out[n_words, width] = n <= width columns of rows that are row_bytes apart, a word of each
     * or, of pairs, a word of two rows; zeros beyond n. Width: a multiple of
     * lanes, of pairs of 2 lanes or 16. */
    void (*columns)(int64_t n_words, int64_t n, const char *rows, int64_t row_bytes, float *out,
                    int64_t width);
    /** The m rows of a tile to where they belong; they are overwritten. */
    void (*finish)(const pl_tile_finish *f, int64_t m, float *tile);
} pl_matmul_tile;

enum { PL_DOT_CHAINS = 32 };

enum { PL_MATMUL_ROWS = 14, PL_MATMUL_LANES = 16 }; /* at most, on any ISA */

extern const pl_matmul_tile pl_matmul_tile_generic, pl_matmul_tile_avx2, pl_matmul_tile_avx512,
    pl_matmul_tile_avx512bf16, pl_matmul_tile_neon, pl_matmul_tile_neonbf16;

/* Words of K between two rows of c that a tile asks for. All at once, when it begins, they would
 * hold up what it reads of a and b: 7% slower at 2048 cubed, as measured on a core of Zen 5. */
enum { PL_TILE_FETCH = 8, PL_LINE_BYTES = 64 };

/** That many, so that each of 14 rows has its turn; fewer where K is short and c is added to, since
 * only what is read holds up the tile; 0: none is asked for. */
static inline __attribute__((always_inline)) int pl_tile_fetch_words(const pl_tile_call *t,
                                                                     int64_t K)
{
    int words = PL_TILE_FETCH;

    while (t->add != NULL && words > 2 && K < PL_MATMUL_ROWS * words)
        words /= 2;
    return K >= PL_MATMUL_ROWS * words ? words : 0;
}

/** Ask for row i of c, of what is added to it, and for some of what is ahead. */
static inline __attribute__((always_inline)) void pl_tile_fetch_row(const pl_tile_call *t, int i)
{
    const int64_t bytes = t->rounds ? 2 : 4;
    const char *row = (const char *)t->c + i * t->ldc * bytes;
    pl_tile_ahead *x = t->ahead;

    __builtin_prefetch(row, 1);
    __builtin_prefetch(row + (t->n - 1) * bytes, 1);
    if (t->add != NULL && t->add != t->c) {
        __builtin_prefetch(t->add + i * t->ld_add);
        __builtin_prefetch(t->add + i * t->ld_add + t->n - 1);
    }
    if (t->residual != NULL) {
        __builtin_prefetch(t->residual + i * t->ld_residual);
        __builtin_prefetch(t->residual + i * t->ld_residual + t->n - 1);
    }
    if (x == NULL)
        return;
    for (int64_t left = x->n_lines; left > 0 && x->n_rows > 0; left--) {
        __builtin_prefetch(x->row + x->done, 0, 2);
        x->done += PL_LINE_BYTES;
        if (x->done < x->length)
            continue;
        x->row += x->step;
        x->n_rows--;
        x->done = 0;
    }
}

/* Rows of an operand that are packed ahead of those asked for: they lie on pages of their own,
 * where the hardware does not look. */
enum { PL_PACK_AHEAD = 16 };

/** Addresses of up to 14 rows, from few registers: two pointers and multiples of the distance. */
typedef struct {
    const char *upper, *lower; /* rows 0 and 7 */
    int64_t row, row_3, row_5;
} pl_tile_rows;

static inline __attribute__((always_inline)) pl_tile_rows pl_tile_rows_of(const pl_tile_call *t)
{
    pl_tile_rows a = {t->a, t->a + 7 * t->a_row, t->a_row, 3 * t->a_row, 5 * t->a_row};

    /* Else the compiler spills fourteen pointers, which costs 5% of the rate. */
    __asm__("" : "+r"(a.lower), "+r"(a.row_3), "+r"(a.row_5));
    return a;
}

static inline __attribute__((always_inline)) const char *pl_tile_row(const pl_tile_rows *a,
                                                                     const int i)
{
    const char *base = i < 7 ? a->upper : a->lower;

    switch (i % 7) {
    case 0:
        return base;
    case 1:
        return base + a->row;
    case 2:
        return base + 2 * a->row;
    case 3:
        return base + a->row_3;
    case 4:
        return base + 4 * a->row;
    case 5:
        return base + a->row_5;
    default:
        return base + 2 * a->row_3;
    }
}

#endif
