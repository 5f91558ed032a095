/* matmul_int8 -- weights as bytes, packed; rows in blocks that fill the L2, made bytes once and met
 * by one panel of weights after the other. K is never cut: the sums are exact in any order. */
#include "config.h"

#include "kernels/matmul_int8.h"

#include "kernels/isa.h"
#include "kernels/matmul_int8_nest.h"
#include "kernels/matmul_int8_ways.h"
#include "src/base/memory.h"
#include "src/base/panic.h"

#include <string.h>

enum { CALL_OPS = 800000000 }; /* between calls of the progress hook, 1 to 2 ms */

struct pl_int8_weights {
    const pl_int8_tile *tile;
    int64_t K, N;
    int8_t *panels;         /* [panels of N][words][2 lanes][4] */
    int32_t *column_offset; /* [N padded]: what a's offset adds to the sums */
    float *scale;           /* [N padded] */
};

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

const pl_int8_tile *pl_int8_tile_get(void)
{
#if defined(__x86_64__)
    const pl_isa isa = pl_isa_get();

    if (isa >= PL_ISA_AVX512 && __builtin_cpu_supports("avx512vnni"))
        return &pl_int8_tile_vnni;
    if (isa >= PL_ISA_AVX2)
        return &pl_int8_tile_avx2;
#endif
    return &pl_int8_tile_generic;
}

/* --- weights --- */

/** Columns, with those that fill the last panel. */
static int64_t padded_columns(const pl_int8_tile *tile, int64_t N)
{
    const int64_t width = 2 * tile->shape.lanes;

    return ceil_div(N, width) * width;
}

size_t pl_int8_weights_bytes(int64_t K, int64_t N)
{
    const int64_t columns = padded_columns(pl_int8_tile_get(), N);

    return (size_t)(columns * (ceil_div(K, 4) * 4 + 8));
}

pl_int8_weights *pl_int8_weights_create(int64_t K, int64_t N)
{
    pl_int8_weights *w = pl_alloc(sizeof *w);

    PL_ASSERT(K <= PL_INT8_MOST_K);
    *w = (pl_int8_weights){.tile = pl_int8_tile_get(), .K = K, .N = N};
    w->panels = pl_alloc(pl_int8_weights_bytes(K, N));
    w->scale = (float *)(w->panels + padded_columns(w->tile, N) * ceil_div(K, 4) * 4);
    w->column_offset = (int32_t *)(w->scale + padded_columns(w->tile, N));
    return w;
}

void pl_int8_weights_destroy(pl_int8_weights *weights)
{
    if (weights == NULL)
        return;
    pl_free(weights->panels);
    pl_free(weights);
}

/** The bytes of column n: fours along K, a panel's width apart. */
static int8_t *column_at(const pl_int8_weights *w, int64_t n)
{
    const int64_t width = 2 * w->tile->shape.lanes;

    return w->panels + 4 * (n / width * width * ceil_div(w->K, 4) + n % width);
}

static int64_t step_of(const pl_int8_weights *w)
{
    return 8 * w->tile->shape.lanes;
}

void pl_int8_weights_set(pl_int8_weights *w, pl_trans trans, const int8_t *q, int64_t ldq,
                         const float *scale)
{
    memcpy(w->scale, scale, (size_t)w->N * sizeof *scale);
    for (int64_t n = 0; n < w->N; n++) {
        int8_t *out = column_at(w, n);

        w->column_offset[n] = 0;
        for (int64_t k = 0; k < w->K; k++) {
            const int8_t x = trans == PL_TRANS ? q[n * ldq + k] : q[k * ldq + n];

            PL_ASSERT(x != INT8_MIN);
            out[k / 4 * step_of(w) + k % 4] = x;
            w->column_offset[n] += w->tile->a_offset * x;
        }
    }
}

void pl_int8_weights_get(const pl_int8_weights *w, int8_t *q, float *scale)
{
    for (int64_t n = 0; n < w->N; n++)
        for (int64_t k = 0; k < w->K; k++)
            q[k * w->N + n] = column_at(w, n)[k / 4 * step_of(w) + k % 4];
    memcpy(scale, w->scale, (size_t)w->N * sizeof *scale);
}

void pl_int8_weights_quantize(pl_int8_weights *w, pl_trans trans, pl_dtype dtype, const void *x,
                              int64_t ldx)
{
    const pl_operand columns = {x, ldx, trans == PL_NO_TRANS, dtype, NULL};
    const pl_int8_tile *tile = w->tile;
    char *column = pl_alloc((size_t)(ceil_div(w->K, 4) * 4 * tile->a_bytes));

    for (int64_t n = 0; n < w->N; n++) {
        int8_t *out = column_at(w, n);

        w->scale[n] = tile->quantize(&columns, n, w->K, column);
        w->column_offset[n] = 0;
        for (int64_t k = 0; k < w->K; k++) {
            const int32_t q = tile->a_bytes == 1 ? (int32_t)(uint8_t)column[k] - tile->a_offset
                                                 : (int32_t)((const float *)column)[k];

            out[k / 4 * step_of(w) + k % 4] = (int8_t)q;
            w->column_offset[n] += tile->a_offset * q;
        }
    }
    pl_free(column);
}

/* --- products --- */

const pl_matmul_tile *pl_int8_shape(const pl_int8_weights *weights, int64_t K, int64_t N)
{
    PL_ASSERT(weights->K == K && weights->N == N && weights->tile == pl_int8_tile_get());
    return &weights->tile->shape;
}

/** A block of rows, made bytes. */
typedef struct {
    int64_t row, n_rows, row_bytes;
    const float *scale;
    const char *data;
} ready_rows;

static ready_rows make_ready(const pl_matmul_job *job, pl_matmul_space *space, int64_t row,
                             int64_t n_rows, int64_t row_bytes)
{
    const pl_int8_tile *tile = job->int8->tile;
    char *out = (char *)space->a;
    float *scale = space->sums;

    for (int64_t i = 0; i < n_rows; i++)
        scale[i] = tile->quantize(&job->a, row + i, job->K, out + i * row_bytes);
    return (ready_rows){row, n_rows, row_bytes, scale, out};
}

/** All its tiles with the panel that begins at column j. */
static void meet_panel(const pl_matmul_job *job, const ready_rows *r, int64_t j, int64_t n)
{
    const pl_int8_weights *w = job->int8;
    const int64_t n_tiles = ceil_div(r->n_rows, w->tile->shape.rows);
    const int64_t bytes = (int64_t)pl_dtype_bytes(job->c_dtype);
    pl_int8_call call = {.words = ceil_div(w->K, 4),
                         .a_row = r->row_bytes,
                         .b = column_at(w, j),
                         .column_offset = w->column_offset + j,
                         .column_scale = w->scale + j,
                         .n = n,
                         .ldc = job->c_row,
                         .c_dtype = job->c_dtype,
                         .ld_add = job->add_row};

    for (int64_t t = 0; t < n_tiles; t++) {
        const int64_t begin = r->n_rows * t / n_tiles, end = r->n_rows * (t + 1) / n_tiles;

        call.a = r->data + begin * r->row_bytes;
        call.row_scale = r->scale + begin;
        call.c = job->c + ((r->row + begin) * job->c_row + j) * bytes;
        if (job->add != NULL)
            call.add = job->add + ((r->row + begin) * job->add_row + j) * bytes;
        w->tile->multiply((int)(end - begin), &call);
    }
}

void pl_int8_nest(const pl_matmul_job *job, const pl_matmul_cut *cut, pl_matmul_part part,
                  pl_matmul_space *space, const pl_progress *progress)
{
    const pl_int8_tile *tile = job->int8->tile;
    const int64_t width = 2 * tile->shape.lanes, end = part.column + part.n_columns;
    /* an odd number of cache lines, lest rows collide */
    const int64_t lines = ceil_div(ceil_div(job->K, 4) * 4 * tile->a_bytes, 64) | 1;
    const int64_t fit = cut->rows * PL_MATMUL_K * 4 / (64 * lines) / tile->shape.rows;
    const int64_t room = (int64_t)space->a_bytes / (64 * lines);
    const int64_t wanted = (fit < 1 ? 1 : fit) * tile->shape.rows;
    const int64_t most_rows = wanted < room ? wanted : room;
    double ops = 0.0;

    for (int64_t i = 0, n_rows; i < part.n_rows; i += n_rows) {
        n_rows = part.n_rows - i < most_rows ? part.n_rows - i : most_rows;
        const ready_rows r = make_ready(job, space, part.row + i, n_rows, 64 * lines);

        for (int64_t j = part.column; j < end; j += width) {
            if (ops >= CALL_OPS) {
                pl_progress_call(progress);
                ops = 0.0;
            }
            meet_panel(job, &r, j, end - j < width ? end - j : width);
            ops += 2.0 * (double)(n_rows * width) * (double)job->K;
        }
    }
}
