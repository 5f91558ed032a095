/* matmul_int8_ways -- the tiles of bytes there are. */
#ifndef PURLIN_KERNELS_MATMUL_INT8_WAYS_H
#define PURLIN_KERNELS_MATMUL_INT8_WAYS_H

#include "kernels/matmul_int8_tile.h"

extern const pl_int8_tile pl_int8_tile_generic, pl_int8_tile_avx2, pl_int8_tile_vnni;

#endif
