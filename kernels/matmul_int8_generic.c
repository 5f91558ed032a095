/* matmul_int8_generic -- bytes as f32, 6 rows of two portable vectors of 4. */
#include "config.h"

#include "kernels/matmul_int8_ways.h"

#include "kernels/matmul_int8_rows.h"

#define TARGET

enum { LANES = 4 };

typedef float vec __attribute__((vector_size(16)));
typedef int32_t int_vec __attribute__((vector_size(16), may_alias));

#include "kernels/matmul_int8_body.h"

const pl_int8_tile pl_int8_tile_generic = {.shape = {.rows = ROWS, .lanes = LANES},
                                           .a_bytes = 4,
                                           .a_offset = 0,
                                           .multiply = multiply,
                                           .quantize = quantize};
