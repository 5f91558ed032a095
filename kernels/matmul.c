/* matmul -- the choice of the tile, of who computes, and the parts of c that threads make. */
#include "config.h"

#include "kernels/matmul.h"

#include "kernels/isa.h"
#include "kernels/matmul_int8_nest.h"
#include "kernels/matmul_nest.h"
#include "kernels/matmul_openblas.h"
#include "kernels/matmul_single.h"
#include "kernels/matmul_trial.h"
#include "src/base/memory.h"
#include "src/base/panic.h"

#include <stdio.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

enum { CALL_FLOPS = 200000000 }; /* between calls of the hook */

/* Set once at start. */
static struct {
    pl_matmul_choice choice;
    int n_threads;
    size_t l1_bytes, l2_bytes, l3_bytes;
} settings = {PL_MATMUL_AUTO, 1, 32 << 10, 1 << 20, 16 << 20};

/* One a thread of a product, not thread-local: OpenMP lets threads end when a team is smaller than
 * the one before. */
static struct {
    pl_matmul_space *space; /* [n] */
    int n;
} spaces;

struct pl_matmul_packed {
    const pl_matmul_tile *tile;
    pl_dtype dtype;
    int64_t K, N;
    float *panels; /* [blocks of K][panels of N][words][2 lanes] */
};

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/** The tile of the ISA in use for operands of `dtype`. */
static const pl_matmul_tile *tile_for(pl_dtype dtype)
{
    static const pl_matmul_tile *const tiles[PL_N_ISA][2] = {
        [PL_ISA_GENERIC] = {&pl_matmul_tile_generic, &pl_matmul_tile_generic},
#if defined(__x86_64__)
        [PL_ISA_AVX2] = {&pl_matmul_tile_avx2, &pl_matmul_tile_avx2},
        [PL_ISA_AVX512] = {&pl_matmul_tile_avx512, &pl_matmul_tile_avx512},
        [PL_ISA_AVX512BF16] = {&pl_matmul_tile_avx512, &pl_matmul_tile_avx512bf16},
#elif defined(__aarch64__)
        [PL_ISA_NEON] = {&pl_matmul_tile_neon, &pl_matmul_tile_neon},
        [PL_ISA_NEONBF16] = {&pl_matmul_tile_neon, &pl_matmul_tile_neonbf16},
#endif
    };

    return tiles[pl_isa_get()][dtype == PL_BF16];
}

/* --- one product, several threads --- */

/** c in a grid of parts, rows x columns. */
typedef struct {
    int rows, columns;
} grid;

/** As many parts as threads, or fewer when there is not a tile or not a millisecond's quarter of
 * work for each; cut so that the operands are packed the least often. */
static grid choose_grid(const pl_matmul_job *job, int n_threads)
{
    const int64_t row_tiles = ceil_div(job->M, job->tile->rows);
    const int64_t panels = ceil_div(job->N, 2 * job->tile->lanes);
    const double flops_each = 4e6;
    const double enough = 2.0 * (double)job->M * (double)job->N * (double)job->K / flops_each;
    grid best = {1, 1};
    double least = 0.0;

    if (enough < n_threads)
        n_threads = enough < 1.0 ? 1 : (int)enough;
    for (int rows = 1; rows <= n_threads; rows++) {
        const int columns = n_threads / rows;
        const double time = (double)ceil_div(row_tiles, rows) * (double)ceil_div(panels, columns) *
                                (double)(job->tile->rows * 2 * job->tile->lanes) +
                            (double)job->M / rows + (double)job->N / columns;

        if (rows == 1 || time < least) {
            best = (grid){rows, columns};
            least = time;
        }
    }
    return best;
}

static pl_matmul_part part_of(const pl_matmul_job *job, grid g, int thread)
{
    const int64_t row_tiles = ceil_div(job->M, job->tile->rows), rows = job->tile->rows;
    const int64_t width = 2 * job->tile->lanes, panels = ceil_div(job->N, width);
    const int r = thread / g.columns, c = thread % g.columns;
    pl_matmul_part p = {.row = row_tiles * r / g.rows * rows,
                        .column = panels * c / g.columns * width};
    const int64_t end_row = row_tiles * (r + 1) / g.rows * rows;
    const int64_t end_column = panels * (c + 1) / g.columns * width;

    p.n_rows = (end_row < job->M ? end_row : job->M) - p.row;
    p.n_columns = (end_column < job->N ? end_column : job->N) - p.column;
    return p;
}

static pl_matmul_cut cut_for(const pl_matmul_tile *tile)
{
    return pl_matmul_cut_for(tile, settings.l1_bytes, settings.l2_bytes, settings.l3_bytes);
}

/** The space of thread `t` of the products under way. */
static pl_matmul_space *space_of(int t, const pl_matmul_cut *cut)
{
    pl_matmul_space_grow(&spaces.space[t], cut);
    return &spaces.space[t];
}

/** Spaces for so many threads, empty ones if they are new. */
static void make_room(int n_threads)
{
    if (spaces.n >= n_threads)
        return;
    spaces.space = pl_realloc(spaces.space, (size_t)spaces.n * sizeof *spaces.space,
                              (size_t)n_threads * sizeof *spaces.space);
    spaces.n = n_threads;
}

static void run_part(const pl_matmul_job *job, const pl_matmul_cut *cut, pl_matmul_part part,
                     pl_matmul_space *space, const pl_progress *progress)
{
    if (pl_matmul_is_single(job))
        pl_matmul_single(job, part, progress);
    else
        (job->int8 != NULL ? pl_int8_nest : pl_matmul_nest)(job, cut, part, space, progress);
}

/** By thread `first` of the products under way and, with n_threads > 1, those after it. */
static void run_job(const pl_matmul_job *job, int first, int n_threads, const pl_progress *progress)
{
    const pl_matmul_cut cut = cut_for(job->tile);
    const grid g = n_threads > 1 ? choose_grid(job, n_threads) : (grid){1, 1};

    if (g.rows * g.columns == 1) {
        const pl_matmul_part all = {0, job->M, 0, job->N};

        run_part(job, &cut, all, space_of(first, &cut), progress);
        return;
    }
#pragma omp parallel for schedule(static) num_threads(g.rows *g.columns)
    for (int t = 0; t < g.rows * g.columns; t++)
        run_part(job, &cut, part_of(job, g, t), space_of(t, &cut), t == 0 ? progress : NULL);
}

/* --- the products of a batch --- */

/** Few columns of long rows waste most of each vector: then c^T = b^T . a^T is computed. */
static bool gains_by_swapping(const pl_product *p)
{
    return p->packed == NULL && p->int8 == NULL && p->N < p->M &&
           p->N <= (p->trans_a == PL_TRANS ? 12 : 6);
}

/** A product without terms: c is what is added, or 0. */
static void without_terms(const pl_product *p, int64_t i)
{
    const size_t bytes = pl_dtype_bytes(p->c_dtype), row = (size_t)p->N * bytes;
    char *c = (char *)p->c + (size_t)(i * p->c_step) * bytes;
    const char *from = p->residual;

    for (int64_t m = 0; m < p->M && !p->accumulate; m++, c += (size_t)p->ldc * bytes)
        if (from == NULL)
            memset(c, 0, row);
        else
            memmove(c, from + (size_t)(i * p->residual_step + m * p->ld_residual) * bytes, row);
}

/** Product `i` of the batch as a job; empty ones have none. */
static pl_matmul_job job_of(const pl_product *p, int64_t i)
{
    const int64_t bytes = (int64_t)pl_dtype_bytes(p->dtype);
    const int64_t c_bytes = (int64_t)pl_dtype_bytes(p->c_dtype);
    const pl_operand a = {(const char *)p->a + i * p->a_step * bytes, p->lda,
                          p->trans_a == PL_TRANS, p->dtype, p->a_pieces};
    const pl_operand b = {(const char *)p->b + i * p->b_step * bytes, p->ldb,
                          p->trans_b == PL_NO_TRANS, p->dtype, p->b_pieces};
    pl_matmul_job job = {.tile = p->packed != NULL ? p->packed->tile
                                 : p->int8 != NULL ? pl_int8_shape(p->int8, p->K, p->N)
                                                   : tile_for(p->dtype),
                         .M = p->M,
                         .N = p->N,
                         .K = p->K,
                         .a = a,
                         .b = b,
                         .panels = p->packed != NULL ? p->packed->panels : NULL,
                         .c = (char *)p->c + i * p->c_step * c_bytes,
                         .c_row = p->ldc,
                         .c_column = 1,
                         .c_dtype = p->c_dtype,
                         .int8 = p->int8,
                         .dots = p->dots};

    if (p->accumulate || p->residual != NULL) {
        job.add =
            p->accumulate ? job.c : (const char *)p->residual + i * p->residual_step * c_bytes;
        job.add_row = p->accumulate ? p->ldc : p->ld_residual;
        job.add_column = 1;
    }

    if (gains_by_swapping(p)) {
        job.M = p->N;
        job.N = p->M;
        job.a = b;
        job.b = a;
        job.c_row = 1;
        job.c_column = p->ldc;
        job.add_column = job.add_row;
        job.add_row = 1;
    }
    return job;
}

/** The products from `first` on; the hook is called within long ones and between them. */
static void run_products(const pl_product *p, int64_t first, int64_t n, int thread, int n_threads,
                         const pl_progress *progress)
{
    double flops = 0.0;

    for (int64_t i = first; i < first + n; i++) {
        const pl_matmul_job job = job_of(p, i);

        run_job(&job, thread, n_threads, progress);
        flops += 2.0 * (double)p->M * (double)p->N * (double)p->K;
        if (flops > CALL_FLOPS && i + 1 < first + n) {
            pl_progress_call(progress);
            flops = 0.0;
        }
    }
}

void pl_matmul_run(const pl_product *p, const pl_progress *progress)
{
    const int n_threads = settings.n_threads;

    PL_ASSERT(p->packed == NULL || (p->packed->dtype == p->dtype && p->packed->K == p->K &&
                                    p->packed->N == p->N && p->packed->tile == tile_for(p->dtype)));
    PL_ASSERT(p->residual == NULL || !p->accumulate);
    PL_ASSERT(p->count == 1 || (p->a_pieces == NULL && p->b_pieces == NULL));
    PL_ASSERT(p->int8 == NULL || p->a_pieces == NULL);
    if (p->M == 0 || p->N == 0)
        return;
    if (p->K == 0) {
        for (int64_t i = 0; i < p->count; i++)
            without_terms(p, i);
        return;
    }
    make_room(n_threads);
    if (n_threads == 1 || p->count < n_threads) {
        run_products(p, 0, p->count, 0, n_threads, progress);
        return;
    }
#pragma omp parallel for schedule(static) num_threads(n_threads)
    for (int t = 0; t < n_threads; t++) {
        const int64_t first = p->count * t / n_threads;

        run_products(p, first, p->count * (t + 1) / n_threads - first, t, 1,
                     t == 0 ? progress : NULL);
    }
}

/** Whether OpenBLAS computes what no trial has spoken of. */
static bool by_openblas(void)
{
    if (settings.choice != PL_MATMUL_AUTO)
        return settings.choice == PL_MATMUL_OPENBLAS;
    return pl_isa_best() == PL_ISA_GENERIC;
}

/** Whether OpenBLAS computes `p`: by what a trial said of its shape, else by the rule. What is added
 * to a residual is as if it were added to c. */
static bool by_openblas_of(const pl_product *p)
{
    const pl_matmul_shape shape = {.trans_a = p->trans_a,
                                   .trans_b = p->trans_b,
                                   .M = p->M,
                                   .N = p->N,
                                   .K = p->K,
                                   .lda = p->lda,
                                   .ldb = p->ldb,
                                   .ldc = p->ldc,
                                   .accumulate = p->accumulate || p->residual != NULL};
    const pl_matmul_tried *tried =
        settings.choice == PL_MATMUL_AUTO ? pl_matmul_find_tried(&shape) : NULL;

    if (p->dtype != PL_F32 || p->c_dtype != PL_F32 || p->count != 1 || p->a_pieces != NULL ||
        p->b_pieces != NULL || p->packed != NULL || p->int8 != NULL)
        return false;
    return tried != NULL ? tried->openblas : by_openblas();
}

void pl_matmul_by_choice(const pl_product *p, const pl_progress *progress)
{
    if (!by_openblas_of(p)) {
        pl_product own = *p;

        own.dots = settings.choice == PL_MATMUL_AUTO && p->dtype == PL_F32;
        pl_matmul_run(&own, progress);
        return;
    }
    if (p->residual != NULL)
        without_terms(p, 0);
    pl_matmul_openblas(p->trans_a, p->trans_b, p->M, p->N, p->K, p->a, p->lda, p->b, p->ldb,
                       p->accumulate || p->residual != NULL, p->c, p->ldc, progress);
}

void pl_matmul(pl_trans trans_a, pl_trans trans_b, int64_t M, int64_t N, int64_t K, const float *a,
               int64_t lda, const float *b, int64_t ldb, bool accumulate, float *c, int64_t ldc,
               const pl_progress *progress)
{
    const pl_product p = {.trans_a = trans_a,
                          .trans_b = trans_b,
                          .M = M,
                          .N = N,
                          .K = K,
                          .dtype = PL_F32,
                          .c_dtype = PL_F32,
                          .a = a,
                          .b = b,
                          .lda = lda,
                          .ldb = ldb,
                          .ldc = ldc,
                          .c = c,
                          .accumulate = accumulate,
                          .count = 1};

    pl_matmul_by_choice(&p, progress);
}

/* --- operands packed once --- */

static int64_t packed_words(const pl_matmul_tile *tile, int64_t K, int64_t N)
{
    const int64_t width = 2 * tile->lanes;

    return pl_words(tile, K) * ceil_div(N, width) * width;
}

size_t pl_matmul_packed_bytes(pl_dtype dtype, int64_t K, int64_t N)
{
    return (size_t)packed_words(tile_for(dtype), K, N) * sizeof(float);
}

pl_matmul_packed *pl_matmul_packed_create(pl_dtype dtype, int64_t K, int64_t N)
{
    pl_matmul_packed *packed = pl_alloc(sizeof *packed);

    *packed = (pl_matmul_packed){.tile = tile_for(dtype), .dtype = dtype, .K = K, .N = N};
    packed->panels = pl_alloc(pl_matmul_packed_bytes(dtype, K, N));
    return packed;
}

void pl_matmul_packed_destroy(pl_matmul_packed *packed)
{
    if (packed == NULL)
        return;
    pl_free(packed->panels);
    pl_free(packed);
}

static void pack(pl_matmul_packed *packed, const pl_operand *b)
{
    const pl_matmul_tile *tile = packed->tile;
    const int64_t width = 2 * tile->lanes, most_k = PL_MATMUL_K * (tile->pairs ? 2 : 1);
    float *out = packed->panels;

    for (int64_t k = 0; k < packed->K; k += most_k) {
        const int64_t n_k = packed->K - k < most_k ? packed->K - k : most_k;

        for (int64_t j = 0; j < packed->N; j += width) {
            const int64_t n = packed->N - j < width ? packed->N - j : width;

            pl_pack_panel(tile, b, j, n, k, n_k, out);
            out += pl_words(tile, n_k) * width;
        }
    }
}

void pl_matmul_pack(pl_matmul_packed *packed, pl_trans trans_b, const void *b, int64_t ldb)
{
    const pl_operand operand = {b, ldb, trans_b == PL_NO_TRANS, packed->dtype, NULL};

    pack(packed, &operand);
}

void pl_matmul_pack_pieces(pl_matmul_packed *packed, pl_trans trans_b, const pl_pieces *b,
                           int64_t ldb)
{
    const pl_operand operand = {NULL, ldb, trans_b == PL_NO_TRANS, packed->dtype, b};

    pack(packed, &operand);
}

/* --- settings --- */

void pl_matmul_set_backend(pl_matmul_choice choice)
{
    settings.choice = choice;
}

void pl_matmul_set_caches(size_t l1_bytes, size_t l2_bytes, size_t l3_bytes)
{
    settings.l1_bytes = l1_bytes > 0 ? l1_bytes : 32 << 10;
    settings.l2_bytes = l2_bytes > 0 ? l2_bytes : 1 << 20;
    settings.l3_bytes = l3_bytes > 0 ? l3_bytes : 16 << 20;
}

void pl_matmul_set_threads(int n_threads)
{
    settings.n_threads = n_threads < 1 ? 1 : n_threads;
    pl_matmul_openblas_set_threads(settings.n_threads);
}

size_t pl_matmul_space_wanted(void)
{
    const pl_matmul_cut cut = cut_for(tile_for(PL_F32)); /* tiles of one ISA are alike */
    const pl_matmul_space each = pl_matmul_space_for(&cut);

    return (size_t)settings.n_threads * pl_matmul_space_bytes(&each);
}

size_t pl_matmul_space_held(void)
{
    size_t bytes = 0;

    for (int t = 0; t < spaces.n; t++)
        bytes += pl_matmul_space_bytes(&spaces.space[t]);
    return bytes;
}

void pl_matmul_reserve(void)
{
    const pl_matmul_cut cut = cut_for(tile_for(PL_F32));
    const int n_threads = settings.n_threads;

    make_room(n_threads);
    for (int t = n_threads; t < spaces.n; t++) { /* of more threads than there are now */
        pl_matmul_space *left = &spaces.space[t];

        pl_free(left->a);
        pl_free(left->b);
        pl_free(left->sums);
        *left = (pl_matmul_space){0};
    }
#pragma omp parallel for schedule(static) num_threads(n_threads)
    for (int t = 0; t < n_threads; t++) /* each near the thread that will use it */
        space_of(t, &cut);
}

const char *pl_matmul_backend(void)
{
    static char text[2][200]; /* each written once, always alike */
    char *own = text[0];

    if (by_openblas())
        return pl_matmul_openblas_name();
    snprintf(own, sizeof text[0], "own tiles, %s", pl_isa_name(pl_isa_get()));
    return own;
}
