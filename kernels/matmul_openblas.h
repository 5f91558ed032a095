/* matmul_openblas -- the same product through OpenBLAS, to compare with and to fall back on. */
#ifndef PURLIN_KERNELS_MATMUL_OPENBLAS_H
#define PURLIN_KERNELS_MATMUL_OPENBLAS_H

#include "kernels/matmul.h"

/** pl_matmul(), each macro-block one call of OpenBLAS. Panics when a leading dimension is above
 * INT_MAX; extents may be.
 *
 * Order: blocks of K ascending, their length a function of (M, N, K) and of whether there is
 *        `progress`; within one, OpenBLAS's. Local. */
void pl_matmul_openblas(pl_trans trans_a, pl_trans trans_b, int64_t M, int64_t N, int64_t K,
                        const float *a, int64_t lda, const float *b, int64_t ldb, bool accumulate,
                        float *c, int64_t ldc, const pl_progress *progress);

void pl_matmul_openblas_set_threads(int n_threads);

/** Version and core, as it names them. */
const char *pl_matmul_openblas_name(void);

#endif
