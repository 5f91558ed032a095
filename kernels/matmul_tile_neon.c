/* matmul_tile_neon -- 14 rows of two vectors of 4: 28 of 32 registers hold sums. tests/
 * kernel_matmul_test has been run under emulation (qemu-aarch64); bits and speed are not measured. */
#include "config.h"

#include "kernels/matmul_tile.h"

#include "kernels/lanes.h"

#if defined(__aarch64__)

#include <string.h>

#define TILE pl_matmul_tile_neon
#define TARGET

#include "kernels/matmul_lanes4.h"

enum { ROWS = 14, WIDE_ROWS = 6, FEW_ROWS = 3, READS_PART = false };

#include "kernels/matmul_tile_body.h"

#endif
