/* matmul_nest -- columns in blocks that fill the L3, K in blocks, rows in blocks that fill the L2;
 * within them a panel of b meets one panel of a after the other.
 *
 * b is packed by the first tile that reads it, as a by-product; b stored along K is transposed
 * first. a is read in place where its rows do not collide in the caches, else copied. */
#include "config.h"

#include "kernels/matmul_nest.h"
#include "kernels/matmul_int8_nest.h"

#include "src/base/bf16.h"
#include "src/base/memory.h"

#include <string.h>

enum {
    PAD = 16,               /* words between rows of a packed: an odd number of cache lines */
    SUMS = 1 << 20,         /* f32 sums of a block of c that is not itself f32 */
    MOST_LINES = 32,        /* asked for at a time */
    CALL_FLOPS = 200000000, /* between calls of the progress hook, 2 ms of one core */
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/** Where part i of n even parts of `extent` begins. */
static int64_t even_begin(int64_t extent, int64_t n, int64_t i)
{
    return extent / n * i + least(extent % n, i);
}

pl_matmul_cut pl_matmul_cut_for(const pl_matmul_tile *tile, size_t l1_bytes, size_t l2_bytes,
                                size_t l3_bytes)
{
    const int64_t word_row = PL_MATMUL_K * 4, panel = 2 * tile->lanes;
    const int64_t rows = (int64_t)(l2_bytes / 2) / word_row / tile->rows * tile->rows;
    const int64_t columns = (int64_t)(l3_bytes / 4) / word_row / panel * panel;

    return (pl_matmul_cut){.rows = rows < tile->rows ? tile->rows : rows,
                           .columns = columns < 8 * panel ? 8 * panel : columns,
                           .direct_bytes = 4 * l1_bytes};
}

static void grow(float **x, size_t *bytes, size_t wanted)
{
    if (*bytes >= wanted)
        return;
    pl_free(*x);
    *x = pl_alloc(wanted);
    *bytes = wanted;
}

pl_matmul_space pl_matmul_space_for(const pl_matmul_cut *cut)
{
    /* columns of a lie in panels of PAD for at most PL_MATMUL_ROWS rows, of 8 for at most 6 */
    const size_t rows = 2 * (size_t)cut->rows + 2 * PAD;
    const size_t columns = (size_t)cut->columns + 2 * PL_MATMUL_LANES;

    const size_t a_bytes = rows * (PL_MATMUL_K + PAD) * sizeof(float);

    return (pl_matmul_space){.a_bytes = a_bytes > PL_INT8_ROW ? a_bytes : PL_INT8_ROW,
                             .b_bytes = columns * PL_MATMUL_K * sizeof(float),
                             .sums_bytes = SUMS * sizeof(float)};
}

size_t pl_matmul_space_bytes(const pl_matmul_space *space)
{
    return space->a_bytes + space->b_bytes + space->sums_bytes;
}

void pl_matmul_space_grow(pl_matmul_space *space, const pl_matmul_cut *cut)
{
    const pl_matmul_space wanted = pl_matmul_space_for(cut);

    grow(&space->a, &space->a_bytes, wanted.a_bytes);
    grow(&space->b, &space->b_bytes, wanted.b_bytes);
    grow(&space->sums, &space->sums_bytes, wanted.sums_bytes);
}

/** What stays the same within one block of K and of columns. */
typedef struct {
    const pl_matmul_job *job;
    pl_matmul_space *space;
    int64_t k, n_k, words;     /* the block of K */
    int64_t column, n_columns; /* the block of columns */
    int64_t row_0, column_0;   /* of the sums in space->sums */
    bool first, last;          /* of the blocks of K */
    bool one_use;              /* a panel of b meets but one block of rows */
} block;

/** The rows of a that a panel of b meets, packed or not. */
typedef struct {
    int64_t row, n_rows, n_panels;
    int64_t rows_each, n_longer; /* the first n_longer panels have a row more */
    const char *data;            /* of the first row */
    int64_t row_step, word_step; /* bytes */
    int64_t panel_step;          /* bytes between panels; 0: row_step times its rows */
} rows_of_a;

static bool reads_a_in_place(const pl_matmul_job *job, const pl_matmul_cut *cut, int64_t n_rows,
                             int64_t n_columns)
{
    const int64_t bytes = (int64_t)pl_dtype_bytes(job->a.dtype);

    if ((job->a.dtype == PL_BF16) != job->tile->pairs || job->a.pieces != NULL)
        return false;
    if (job->tile->pairs && (job->a.across || job->K % 2 != 0))
        return false;
    /* Rows that are a page apart would all fall into the same few lines of the L1. */
    if (job->a.ld * bytes % 4096 != 0 && n_columns <= (job->a.across ? 4 : 96) * job->tile->lanes)
        return true;
    return (size_t)(n_rows * least(job->K, 2 * PL_MATMUL_K) * bytes) <= cut->direct_bytes &&
           (n_rows <= 4 || job->a.ld * bytes % 2048 != 0);
}

/** Panels of a stored along M, a few rows of it at a time through all panels: it is read line after
 * line. Between panels lies a cache line, lest they collide. */
static void pack_columns_of(const block *z, int64_t row, rows_of_a *r)
{
    const pl_matmul_job *job = z->job;
    const int64_t at_once = job->tile->pairs ? 32 : 16;
    const int64_t width = (job->tile->rows + 7) / 8 * 8, panel = width * z->words + PAD;

    r->row_step = 4;
    r->word_step = 4 * width;
    r->panel_step = 4 * panel;
    for (int64_t k = 0; k < z->n_k; k += at_once)
        for (int64_t p = 0; p < r->n_panels; p++) {
            const int64_t begin = p * r->rows_each + least(p, r->n_longer);
            const int64_t n = r->rows_each + (p < r->n_longer);

            pl_pack_columns(job->tile, &job->a, row + begin, n, job->M - row - begin, z->k + k,
                            least(at_once, z->n_k - k),
                            z->space->a + p * panel + pl_words(job->tile, k) * width, width);
        }
}

static rows_of_a take_rows(const block *z, const pl_matmul_cut *cut, int64_t row, int64_t n_rows)
{
    const pl_matmul_job *job = z->job;
    const pl_operand *a = &job->a;
    const int64_t n_panels = ceil_div(n_rows, job->tile->rows);
    rows_of_a r = {.row = row,
                   .n_rows = n_rows,
                   .n_panels = n_panels,
                   .rows_each = n_rows / n_panels,
                   .n_longer = n_rows % n_panels};

    if (reads_a_in_place(job, cut, n_rows, z->n_columns)) {
        const int64_t bytes = (int64_t)pl_dtype_bytes(a->dtype);

        r.data = pl_operand_at(a, row, z->k);
        r.row_step = a->across ? bytes : a->ld * bytes;
        r.word_step = a->across ? a->ld * bytes : 4;
        return r;
    }
    r.data = (const char *)z->space->a;
    if (!a->across) {
        r.row_step = 4 * (PL_MATMUL_K + PAD);
        r.word_step = 4;
        pl_pack_rows(job->tile, a, row, n_rows, z->k, z->n_k, z->space->a, PL_MATMUL_K + PAD);
        return r;
    }
    pack_columns_of(z, row, &r);
    return r;
}

/** Where the sum of element (i, j) waits for the next block of K. */
static float *sums_at(const block *z, int64_t i, int64_t j)
{
    return z->space->sums + (i - z->row_0) * z->n_columns + j - z->column_0;
}

/** c (of whatever type and order) from the sums of the tile at (i, j); between blocks of K sums
 * that are not of c's type wait in space->sums. */
static void finish(const block *z, int64_t i, int64_t m, int64_t j, int64_t n, float *tile)
{
    const pl_matmul_job *job = z->job;
    const bool is_f32 = job->c_dtype == PL_F32, from_c = is_f32 && !z->first;
    float *sums = sums_at(z, i, j);
    const int64_t bytes = (int64_t)pl_dtype_bytes(job->c_dtype);
    pl_tile_finish f = {.n = n,
                        .sums_in = is_f32 || z->first ? NULL : sums,
                        .sums_out = is_f32 || z->last ? NULL : sums,
                        .sums_row = z->n_columns,
                        .add = from_c              ? job->c
                               : is_f32 || z->last ? job->add
                                                   : NULL,
                        .add_row = from_c ? job->c_row : job->add_row,
                        .add_column = from_c ? job->c_column : job->add_column,
                        .c = job->c + (i * job->c_row + j * job->c_column) * bytes,
                        .c_row = job->c_row,
                        .c_column = job->c_column,
                        .is_bf16 = !is_f32};

    if (f.add != NULL)
        f.add = (const char *)f.add + (i * f.add_row + j * f.add_column) * bytes;
    job->tile->finish(&f, m, tile);
}

/** Lets the tile at (i, j) write its sums to where they belong, if that can be: c or, where c is
 * not f32, the sums that wait for the next block of K. */
static bool ends_at_once(const block *z, int64_t i, int64_t j, pl_tile_call *call)
{
    const pl_matmul_job *job = z->job;

    if (job->c_dtype == PL_F32 && job->c_column == 1) {
        const float *add = (const float *)(z->first ? job->add : job->c);

        call->ld_add = z->first ? job->add_row : job->c_row;
        call->add = add != NULL ? add + i * call->ld_add + j : NULL;
        call->c = (float *)job->c + i * job->c_row + j;
        call->ldc = job->c_row;
        return true;
    }
    if (job->c_dtype == PL_BF16 && job->c_column == 1 && job->tile->rounds && z->last) {
        const pl_bf16 *residual = (const pl_bf16 *)job->add;

        call->rounds = true;
        call->ld_add = z->n_columns;
        call->add = z->first ? NULL : sums_at(z, i, j);
        call->ld_residual = job->add_row;
        call->residual = residual != NULL ? residual + i * job->add_row + j : NULL;
        call->c = (pl_bf16 *)job->c + i * job->c_row + j;
        call->ldc = job->c_row;
        return true;
    }
    if (job->c_dtype == PL_F32 || z->last)
        return false;
    call->c = sums_at(z, i, j);
    call->ldc = call->ld_add = z->n_columns;
    call->add = z->first ? NULL : call->c;
    return true;
}

/** Ask for the sums that a tile will end with. */
static void fetch_sums(const block *z, int64_t i, int64_t m, int64_t j)
{
    if (z->job->c_dtype == PL_F32 || z->first)
        return;
    for (int64_t r = 0; r < m; r++) {
        __builtin_prefetch(sums_at(z, i + r, j));
        __builtin_prefetch(sums_at(z, i + r, j) + PL_MATMUL_LANES);
    }
}

/** The tiles of all rows with a panel of b that `call` describes. When `keep`, the first tile
 * leaves it packed for the others. */
static void meet_rows(const block *z, const rows_of_a *r, int64_t j, int n_vectors,
                      pl_tile_call call, pl_tile_ahead ahead, float *keep)
{
    const pl_matmul_job *job = z->job;
    _Alignas(64) float sums[PL_MATMUL_ROWS * PL_TILE_ROW];

    call.keep = keep;
    ahead.n_lines = ceil_div(ceil_div(ahead.length, PL_LINE_BYTES) * ahead.n_rows, r->n_rows);
    call.ahead = ahead.n_lines > 0 && ahead.n_lines <= MOST_LINES ? &ahead : NULL;
    for (int64_t p = 0, m, begin = 0; p < r->n_panels; p++, begin += m) {
        const int64_t i = r->row + begin;

        m = r->rows_each + (p < r->n_longer);
        call.a = r->data + (r->panel_step != 0 ? p * r->panel_step : begin * r->row_step);
        const bool is_done = ends_at_once(z, i, j, &call);
        if (!is_done) {
            call.add = NULL;
            call.c = sums;
            call.ldc = PL_TILE_ROW;
            fetch_sums(z, i, m, j);
        }
        job->tile->multiply((int)m, n_vectors, &call);
        if (!is_done)
            finish(z, i, m, j, call.n, sums);
        if (call.keep != NULL) {
            call.b = (const char *)keep;
            call.ldb = 8 * job->tile->lanes;
            call.raw = false;
            call.K = z->words;
            call.keep = NULL;
        }
    }
}

/** Where the panel of columns from j on lies packed, or will. */
static float *packed_panel(const block *z, int64_t j)
{
    const pl_matmul_job *job = z->job;
    const int64_t width = 2 * job->tile->lanes;

    if (job->panels == NULL)
        return z->space->b + (z->one_use ? 0 : (j - z->column) * z->words);
    /* after all blocks of K before this one */
    return (float *)job->panels + pl_words(job->tile, z->k) * ceil_div(job->N, width) * width +
           j * z->words;
}

/** The panel of b that the rows meet after the one at column j: where it lies, or lies packed. */
static pl_tile_ahead ahead_of(const block *z, int64_t j, bool first_rows)
{
    const pl_matmul_job *job = z->job;
    const int64_t width = 2 * job->tile->lanes, bytes = (int64_t)pl_dtype_bytes(job->b.dtype);
    const int64_t next = j + width, n = least(width, z->column + z->n_columns - next);

    if (n <= 0)
        return (pl_tile_ahead){0};
    if (job->panels != NULL || !first_rows)
        return (pl_tile_ahead){.row = (const char *)packed_panel(z, next),
                               .n_rows = 1,
                               .length = 4 * width * z->words};
    if (job->b.pieces != NULL)
        return (pl_tile_ahead){0};
    return (pl_tile_ahead){.row = pl_operand_at(&job->b, next, z->k),
                           .n_rows = job->b.across ? z->n_k : n,
                           .step = job->b.ld * bytes,
                           .length = (job->b.across ? n : z->n_k) * bytes};
}

/** Columns [j, j + n) of b, a panel or, where they are read once, two: in place, packed before, or
 * to be packed now. Returns the columns done. */
static int64_t meet_columns(const block *z, const rows_of_a *r, int64_t j, bool first_rows)
{
    const pl_matmul_job *job = z->job;
    const pl_matmul_tile *tile = job->tile;
    const int64_t width = 2 * tile->lanes, end = z->column + z->n_columns;
    const int64_t n = least(width, end - j);
    const int n_vectors = n > tile->lanes ? 2 : 1;
    const pl_tile_ahead ahead = ahead_of(z, j, first_rows);
    float *panel = packed_panel(z, j);
    pl_tile_call call = {.K = z->words,
                         .a_row = r->row_step,
                         .a_k = r->word_step,
                         .b = (const char *)panel,
                         .ldb = 4 * width,
                         .n = n};

    if (job->panels != NULL || !first_rows) {
        meet_rows(z, r, j, n_vectors, call, ahead, NULL);
        return n;
    }
    const bool is_like = (job->b.dtype == PL_BF16) == tile->pairs;
    const int64_t b_bytes = job->b.ld * (int64_t)pl_dtype_bytes(job->b.dtype);

    if (!job->b.across && is_like && job->M <= tile->few_rows &&
        pl_operand_is_whole(&job->b, j, n) && !(tile->pairs && z->n_k % 2 != 0)) {
        call.b = pl_operand_at(&job->b, j, z->k);
        call.ldb = b_bytes;
        call.along = true;
        meet_rows(z, r, j, n_vectors, call, ahead, NULL);
        return n;
    }
    /* In place as far as the tile can: whole panels, or part of one that is not used again. */
    const bool readable = job->b.across && is_like && pl_operand_is_whole(&job->b, z->k, z->n_k);
    const bool whole = n == width, again = r->n_panels > 1 || !z->one_use;

    if (!readable || (!whole && (again || !tile->reads_part))) {
        pl_pack_panel(tile, &job->b, j, n, z->k, z->n_k, panel);
        meet_rows(z, r, j, n_vectors, call, ahead, NULL);
        return n;
    }
    call.b = pl_operand_at(&job->b, j, z->k);
    call.ldb = b_bytes;
    call.raw = true;
    call.K = tile->pairs ? z->n_k : z->words;
    if (!again && r->n_rows <= tile->wide_rows && end - j >= 2 * width) {
        call.n = 2 * width;
        meet_rows(z, r, j, 4, call, ahead, NULL);
        return call.n;
    }
    meet_rows(z, r, j, n_vectors, call, ahead, again ? panel : NULL);
    return n;
}

/** FLOPs since the hook was last called; it is not called after the last ones. */
typedef struct {
    const pl_progress *progress;
    double flops, most;
} pace;

static void keep_pace(pace *p, double flops)
{
    if (p->flops >= p->most) {
        pl_progress_call(p->progress);
        p->flops = 0.0;
    }
    p->flops += flops;
}

static void run_block(const block *z, const pl_matmul_cut *cut, const pl_matmul_part *part, pace *p)
{
    const int64_t n_panels = ceil_div(part->n_rows, z->job->tile->rows);
    const int64_t n_blocks = ceil_div(n_panels, cut->rows / z->job->tile->rows);

    for (int64_t b = 0; b < n_blocks; b++) {
        const int64_t begin = even_begin(part->n_rows, n_blocks, b);
        const int64_t n_rows = even_begin(part->n_rows, n_blocks, b + 1) - begin;
        const rows_of_a r = take_rows(z, cut, part->row + begin, n_rows);

        for (int64_t done, j = z->column; j < z->column + z->n_columns; j += done) {
            done = meet_columns(z, &r, j, b == 0);
            keep_pace(p, 2.0 * (double)(n_rows * done) * (double)z->n_k);
        }
    }
}

/** Whether a product is of f32, soon done, in one block of K, and its b stays in the L1 as it lies.
 */
static bool is_small(const pl_matmul_job *job, const pl_matmul_cut *cut)
{
    const pl_matmul_tile *tile = job->tile;
    const size_t l1_bytes = cut->direct_bytes / 4, b_bytes = 4 * (size_t)(job->K * job->b.ld);

    return !tile->pairs && job->c_dtype == PL_F32 && job->c_column == 1 && job->panels == NULL &&
           job->b.across && job->b.dtype == PL_F32 && job->b.pieces == NULL &&
           job->K <= PL_MATMUL_K && b_bytes <= l1_bytes && job->M > tile->wide_rows &&
           2 * job->M * job->N * job->K <= CALL_FLOPS &&
           (tile->reads_part || job->N % tile->lanes == 0) &&
           reads_a_in_place(job, cut, job->M, job->N);
}

/** Such a product: nothing is packed or asked for ahead, which would take as long as some tiles. */
static void run_small(const pl_matmul_job *job, const pl_matmul_part *part)
{
    const pl_matmul_tile *tile = job->tile;
    const int64_t n_panels = ceil_div(part->n_rows, tile->rows),
                  end = part->column + part->n_columns;
    const int64_t rows_each = part->n_rows / n_panels, n_longer = part->n_rows % n_panels;
    const int64_t a_row = job->a.across ? 4 : 4 * job->a.ld;
    pl_tile_call call = {.K = job->K,
                         .a_row = a_row,
                         .a_k = job->a.across ? 4 * job->a.ld : 4,
                         .ldb = 4 * job->b.ld,
                         .raw = true,
                         .ldc = job->c_row,
                         .ld_add = job->add_row};

    for (int64_t j = part->column; j < end; j += call.n) {
        int64_t i = part->row;

        call.n = least(2 * tile->lanes, end - j);
        call.b = (const char *)job->b.data + 4 * j;
        for (int64_t p = 0; p < n_panels; p++) {
            const int m = (int)(rows_each + (p < n_longer));

            call.a = (const char *)job->a.data + i * a_row;
            call.c = (float *)job->c + i * job->c_row + j;
            call.add = job->add != NULL ? (const float *)job->add + i * job->add_row + j : NULL;
            tile->multiply(m, call.n > tile->lanes ? 2 : 1, &call);
            i += m;
        }
    }
}

void pl_matmul_nest(const pl_matmul_job *job, const pl_matmul_cut *cut, pl_matmul_part part,
                    pl_matmul_space *space, const pl_progress *progress)
{
    const int64_t most_k = PL_MATMUL_K * (job->tile->pairs ? 2 : 1), end = part.row + part.n_rows;
    const bool sums_wait = job->c_dtype != PL_F32 && job->K > most_k;
    const int64_t most_columns = sums_wait ? least(cut->columns, 512) : cut->columns;
    const int64_t most_rows = sums_wait ? SUMS / 512 : part.n_rows;
    pace since = {progress, 0.0, CALL_FLOPS * (job->tile->pairs ? 2.0 : 1.0)};

    if (is_small(job, cut)) {
        run_small(job, &part);
        return;
    }
    for (int64_t i = part.row; i < end; i += most_rows)
        for (int64_t done = 0; done < part.n_columns; done += most_columns) {
            const pl_matmul_part rows = {.row = i, .n_rows = least(most_rows, end - i)};
            const int64_t n_blocks =
                ceil_div(ceil_div(rows.n_rows, job->tile->rows), cut->rows / job->tile->rows);
            block z = {.job = job,
                       .space = space,
                       .column = part.column + done,
                       .n_columns = least(most_columns, part.n_columns - done),
                       .row_0 = i,
                       .column_0 = part.column + done,
                       .one_use = n_blocks == 1};

            for (int64_t k = 0; k < job->K; k += most_k) {
                z.k = k;
                z.n_k = least(most_k, job->K - k);
                z.words = pl_words(job->tile, z.n_k);
                z.first = k == 0;
                z.last = k + z.n_k == job->K;
                run_block(&z, cut, &rows, &since);
            }
        }
}
