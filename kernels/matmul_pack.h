/* matmul_pack -- operands copied to where the tiles read them fastest. */
#ifndef PURLIN_KERNELS_MATMUL_PACK_H
#define PURLIN_KERNELS_MATMUL_PACK_H

#include "kernels/matmul.h"
#include "kernels/matmul_tile.h"
#include "src/base/dtype.h"

/** One operand: element (i, k) at data + (i * ld + k) elements, or (k * ld + i) when `across`;
 * i counts rows of a, columns of b. */
typedef struct {
    const char *data;
    int64_t ld; /* elements */
    bool across;
    pl_dtype dtype; /* PL_F32 or PL_BF16; the latter becomes f32 where the tile has no pairs */
    const pl_pieces *pieces; /* of its stored rows, in place of data; or NULL */
} pl_operand;

/** Words that `K` elements along K make. */
static inline int64_t pl_words(const pl_matmul_tile *tile, int64_t K)
{
    return tile->pairs ? (K + 1) / 2 : K;
}

/** The address of an element of a stored row in pieces. */
const char *pl_operand_in_pieces(const pl_operand *x, int64_t row, int64_t column);

/** The address of element (i, k). */
static inline const char *pl_operand_at(const pl_operand *x, int64_t i, int64_t k)
{
    const int64_t row = x->across ? k : i, column = x->across ? i : k;

    if (x->pieces != NULL)
        return pl_operand_in_pieces(x, row, column);
    return x->data + (row * x->ld + column) * (int64_t)pl_dtype_bytes(x->dtype);
}

/** Whether n stored rows from `row` on lie as far apart as any. */
bool pl_operand_is_whole(const pl_operand *x, int64_t row, int64_t n);

/** out[n, stride] = the words of n rows of x from (i, k) on; x is not `across`. An odd last
 * element is paired with 0. */
void pl_pack_rows(const pl_matmul_tile *tile, const pl_operand *x, int64_t i, int64_t n, int64_t k,
                  int64_t K, float *out, int64_t stride);

/** out[words(K), width] = the words of n <= width columns of x from (i, k) on; x is `across`.
 * What is beyond n is 0 or, where x has more columns (n_there of them from i on), theirs. */
void pl_pack_columns(const pl_matmul_tile *tile, const pl_operand *x, int64_t i, int64_t n,
                     int64_t n_there, int64_t k, int64_t K, float *out, int64_t width);

/** A panel of b: out[words(K), 2 lanes] from columns [i, i + n), n <= 2 lanes; zeros beyond n. */
void pl_pack_panel(const pl_matmul_tile *tile, const pl_operand *b, int64_t i, int64_t n, int64_t k,
                   int64_t K, float *out);

#endif
