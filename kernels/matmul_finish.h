/* matmul_finish -- from the sums of one tile to c where c is not f32 in rows: plain C that the
 * compiler vectorises for the ISA of the function around it; included by the file of each ISA. */
#ifndef PURLIN_KERNELS_MATMUL_FINISH_H
#define PURLIN_KERNELS_MATMUL_FINISH_H

#include "kernels/lanes.h"
#include "kernels/matmul_tile.h"
#include "src/base/bf16.h"

/** sum[n] += row i of what was there before, if anything was. */
PL_INLINE void add_before(const pl_tile_finish *f, int64_t i, float *restrict sum)
{
    const int64_t at = i * f->add_row, step = f->add_column, n = f->n;

    if (f->sums_in != NULL) {
        const float *restrict sums = f->sums_in + i * f->sums_row;

        for (int64_t j = 0; j < n; j++)
            sum[j] += sums[j];
    }
    if (f->add != NULL && f->is_bf16) {
        const pl_bf16 *restrict half = (const pl_bf16 *)f->add + at;

        if (step == 1)
            for (int64_t j = 0; j < n; j++)
                sum[j] += pl_bf16_to_f32(half[j]);
        else
            for (int64_t j = 0; j < n; j++)
                sum[j] += pl_bf16_to_f32(half[j * step]);
    } else if (f->add != NULL) {
        const float *restrict full = (const float *)f->add + at;

        for (int64_t j = 0; j < n; j++)
            sum[j] += full[j * step];
    }
}

/** The m rows of a tile. */
PL_INLINE void finish_rows(const pl_tile_finish *f, int64_t m, float *tile)
{
    const int64_t n = f->n, step = f->c_column;

    for (int64_t i = 0; i < m; i++, tile += PL_TILE_ROW) {
        pl_bf16 *restrict half = (pl_bf16 *)f->c + i * f->c_row;
        float *restrict full = (float *)f->c + i * f->c_row;

        add_before(f, i, tile);
        if (f->sums_out != NULL)
            memcpy(f->sums_out + i * f->sums_row, tile, (size_t)n * sizeof *tile);
        else if (f->is_bf16 && step == 1)
            for (int64_t j = 0; j < n; j++)
                half[j] = pl_bf16_of_f32(tile[j]);
        else if (f->is_bf16)
            for (int64_t j = 0; j < n; j++)
                half[j * step] = pl_bf16_of_f32(tile[j]);
        else
            for (int64_t j = 0; j < n; j++)
                full[j * step] = tile[j];
    }
}

#endif
