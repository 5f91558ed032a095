/* matmul_tile_generic -- 6 rows of two vectors of 4, in portable vectors (SSE2, NEON): 12 sums, two
 * vectors of b, one word of a. */
#include "config.h"

#include "kernels/matmul_tile.h"

#include "kernels/lanes.h"

#include <string.h>

#define TILE pl_matmul_tile_generic
#define TARGET

#include "kernels/matmul_lanes4.h"

enum { ROWS = 6, WIDE_ROWS = 2, FEW_ROWS = 2, READS_PART = false };

#include "kernels/matmul_tile_body.h"
