/* matmul_tile_neon -- 14 rows of two vectors of 4: 28 of 32 registers hold sums. tests/
 * kernel_matmul_test has been run under emulation (qemu-aarch64); bits and speed are not measured. */
#include "config.h"

#include "kernels/matmul_tile.h"

#include "kernels/lanes.h"

#if defined(__aarch64__)

#include <string.h>

#define TARGET

#include "kernels/matmul_lanes4.h"

enum { ROWS = 14, WIDE_ROWS = 6, FEW_ROWS = 3, READS_PART = false };

#include "kernels/matmul_tile_body.h"

const pl_matmul_tile pl_matmul_tile_neon = {.rows = ROWS,
                                            .wide_rows = WIDE_ROWS,
                                            .few_rows = FEW_ROWS,
                                            .lanes = LANES,
                                            .reads_part = READS_PART,
                                            .multiply = multiply,
                                            .single = single,
                                            .dots = dots,
                                            .transpose = transpose,
                                            .columns = columns,
                                            .finish = finish};

#endif
