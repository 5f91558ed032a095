/* matmul -- f32 matrix product, through OpenBLAS, cut so that communication can progress. */
#ifndef PURLIN_KERNELS_MATMUL_H
#define PURLIN_KERNELS_MATMUL_H

#include "kernels/progress.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum { PL_NO_TRANS = 0, PL_TRANS = 1 } pl_trans;

/** c[M, N] = op(a)[M, K] . op(b)[K, N], or += when `accumulate`; row-major.
 *
 * a is stored [M, K] with PL_NO_TRANS, [K, M] with PL_TRANS; b is stored [K, N] or [N, K]; lda,
 * ldb, ldc are the distances between stored rows, in elements. c overlaps neither a nor b. Without
 * `accumulate` c is not read (NaNs in it vanish) and K = 0 gives zeros. M, N or K may be 0.
 * `progress` is called between macro-blocks of about 2e8 FLOPs; NULL: nothing is cut. Panics when a
 * leading dimension is above INT_MAX; extents may be.
 *
 * Order: blocks of K ascending, their length a function of (M, N, K) and of whether there is
 *        `progress`; within one, OpenBLAS's.
 * Cost:  2 M N K FLOPs; reads (M K + K N) * 4 bytes, writes M N * 4 (reads them too when
 *        `accumulate`). Local. */
void pl_matmul(pl_trans trans_a, pl_trans trans_b, int64_t M, int64_t N, int64_t K, const float *a,
               int64_t lda, const float *b, int64_t ldb, bool accumulate, float *c, int64_t ldc,
               const pl_progress *progress);

/** Threads that each matmul may use from now on; at least 1. Local. */
void pl_matmul_set_threads(int n_threads);

/** What multiplies, for the record of a run: the library, its version and the core it chose. */
const char *pl_matmul_backend(void);

#endif
