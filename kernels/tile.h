/* tile -- small products of operands that sit in cache: the register tiles of attention. */
#ifndef PURLIN_KERNELS_TILE_H
#define PURLIN_KERNELS_TILE_H

#include <stdbool.h>
#include <stdint.h>

/** c[rows, cols] = or += a[rows, K] . b[K, cols]. Element (i, k) of a is at a[i * row_step + k *
 * k_step]; rows of b and of c are contiguous, ldb and ldc apart. Order: k ascending.
 * Cost: 2 rows cols K FLOPs. */
typedef void pl_tile_function(int64_t K, const float *a, int64_t row_step, int64_t k_step,
                              const float *b, int64_t ldb, bool accumulate, float *c, int64_t ldc);

/** A register tile; rows divides cols, cols divides PL_TILE_MOST. */
typedef struct {
    int64_t rows, cols;
    pl_tile_function *product;
} pl_tile;

enum { PL_TILE_MOST = 32 };

/** The tile of the ISA in use. Local. */
const pl_tile *pl_tile_get(void);

#endif
