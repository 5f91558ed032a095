/* matmul_int8_avx2 -- bytes as f32, 6 rows of two vectors of 8. */
#include "config.h"

#include "kernels/matmul_int8_ways.h"

#include "kernels/matmul_int8_rows.h"

#if defined(__x86_64__)

#define TARGET PL_AVX2

enum { LANES = 8 };

typedef float vec __attribute__((vector_size(32)));
typedef int32_t int_vec __attribute__((vector_size(32), may_alias));

#include "kernels/matmul_int8_body.h"

const pl_int8_tile pl_int8_tile_avx2 = {.shape = {.rows = ROWS, .lanes = LANES},
                                        .a_bytes = 4,
                                        .a_offset = 0,
                                        .multiply = multiply,
                                        .quantize = quantize};

#endif
