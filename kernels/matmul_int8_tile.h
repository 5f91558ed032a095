/* matmul_int8_tile -- the innermost product of bytes, and how rows become bytes; one for each way
 * in which an ISA can do it. */
#ifndef PURLIN_KERNELS_MATMUL_INT8_TILE_H
#define PURLIN_KERNELS_MATMUL_INT8_TILE_H

#include "kernels/matmul_pack.h"

/** c[m, n] = add + row_scale[m] column_scale[n] a[m, K] . b[K, n]. */
typedef struct {
    int64_t words;                /* of four elements along K */
    const char *a;                /* rows of elements, a_row bytes apart, a whole number of words */
    int64_t a_row;                /* bytes */
    const int8_t *b;              /* [words][2 lanes][4] */
    const int32_t *column_offset; /* [2 lanes], taken off the sums */
    const float *row_scale, *column_scale; /* [m], [2 lanes] */
    int64_t n;                             /* columns, at most 2 lanes */
    char *c;
    int64_t ldc; /* elements */
    pl_dtype c_dtype;
    const char *add; /* of c's type, added; may be c; or NULL */
    int64_t ld_add;
} pl_int8_call;

typedef struct {
    pl_matmul_tile shape; /* rows and lanes; the rest is NULL */
    int64_t a_bytes;      /* of an element of a row that is ready */
    int32_t a_offset;     /* what was added to each element of it */
    void (*multiply)(int m, const pl_int8_call *call);
    /** Row i of x[., K] ready to be multiplied, zeros up to whole words; returns its scale. */
    float (*quantize)(const pl_operand *x, int64_t i, int64_t K, void *out);
} pl_int8_tile;

/** The tile of the ISA in use. */
const pl_int8_tile *pl_int8_tile_get(void);

#endif
