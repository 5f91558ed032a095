/* matmul_int8_nest -- the loop nest around the tiles of bytes, on one thread. */
#ifndef PURLIN_KERNELS_MATMUL_INT8_NEST_H
#define PURLIN_KERNELS_MATMUL_INT8_NEST_H

#include "kernels/matmul_int8.h"
#include "kernels/matmul_nest.h"

/* Bytes of the longest row, as f32, and a cache line. */
enum { PL_INT8_ROW = 4 * PL_INT8_MOST_K + 64 };

/** Rows and lanes of its tile; they must be op(w)[K, N], packed for the ISA in use. */
const pl_matmul_tile *pl_int8_shape(const pl_int8_weights *weights, int64_t K, int64_t N);

/** Like pl_matmul_nest(), for a job with int8. */
void pl_int8_nest(const pl_matmul_job *job, const pl_matmul_cut *cut, pl_matmul_part part,
                  pl_matmul_space *space, const pl_progress *progress);

#endif
