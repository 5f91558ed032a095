/* matmul_tile_avx512 -- 14 rows of two vectors of 16: 28 sums, two vectors of b, one word of a. */
#include "config.h"

#include "kernels/matmul_tile.h"

#include "kernels/lanes.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define TILE pl_matmul_tile_avx512
#define TARGET PL_AVX512

#include "kernels/matmul_lanes16.h"

enum { ROWS = 14, WIDE_ROWS = 6, FEW_ROWS = 3, READS_PART = true };

#include "kernels/matmul_tile_body.h"

#endif
