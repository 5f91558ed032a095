#include "config.h"

#include "kernels/matmul_trial.h"

#include "kernels/matmul_openblas.h"
#include "src/base/memory.h"
#include "src/base/panic.h"

#include <stdio.h>
#include <string.h>

enum { LEAST_EXTENT = 256, MOST_ELEMENTS = 1 << 24 };

/* Set once for each program that is run. */
static struct {
    int n;
    pl_matmul_tried entry[PL_MATMUL_MOST_TRIED];
} table;

/* --- shapes --- */

bool pl_matmul_shape_equal(const pl_matmul_shape *a, const pl_matmul_shape *b)
{
    return a->M == b->M && a->N == b->N && a->K == b->K && a->trans_a == b->trans_a &&
           a->trans_b == b->trans_b && a->accumulate == b->accumulate && a->lda == b->lda &&
           a->ldb == b->ldb && a->ldc == b->ldc;
}

void pl_matmul_shape_print(const pl_matmul_shape *shape, char text[PL_MATMUL_SHAPE_TEXT])
{
    snprintf(text, PL_MATMUL_SHAPE_TEXT, "%lldx%lldx%lld %c%c%s", (long long)shape->M,
             (long long)shape->N, (long long)shape->K, shape->trans_a == PL_TRANS ? 't' : 'n',
             shape->trans_b == PL_TRANS ? 't' : 'n', shape->accumulate ? " +=" : "");
}

/* --- the verdict --- */

static void sort(double *x, int n)
{
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && x[k] < x[k - 1]; k--) {
            const double larger = x[k - 1];

            x[k - 1] = x[k];
            x[k] = larger;
        }
}

/** The median of x[n], and the upper less the lower quartile. */
static double median_of(const double *x, int n, double *middle_half)
{
    double sorted[PL_MATMUL_MOST_SAMPLES];

    memcpy(sorted, x, (size_t)n * sizeof *x);
    sort(sorted, n);
    *middle_half = sorted[n - 1 - n / 4] - sorted[n / 4];
    return sorted[n / 2];
}

void pl_matmul_judge(const double *own_s, const double *openblas_s, int n, pl_matmul_tried *tried)
{
    double spread[2];

    PL_ASSERT(n >= 1 && n <= PL_MATMUL_MOST_SAMPLES);
    tried->own_s = median_of(own_s, n, &spread[0]);
    tried->openblas_s = median_of(openblas_s, n, &spread[1]);
    const double gain_s = tried->own_s - tried->openblas_s;
    tried->openblas = gain_s > spread[0] && gain_s > spread[1] &&
                      gain_s > PL_MATMUL_LEAST_GAIN * tried->own_s;
}

/* --- the table --- */

void pl_matmul_use_tried(const pl_matmul_tried *tried, int n)
{
    PL_ASSERT(n <= PL_MATMUL_MOST_TRIED);
    if (n > 0)
        memcpy(table.entry, tried, (size_t)n * sizeof *tried);
    table.n = n;
}

const pl_matmul_tried *pl_matmul_tried_in_use(int *n)
{
    *n = table.n;
    return table.entry;
}

const pl_matmul_tried *pl_matmul_find_tried(const pl_matmul_shape *shape)
{
    for (int i = 0; i < table.n; i++)
        if (pl_matmul_shape_equal(&table.entry[i].shape, shape))
            return &table.entry[i];
    return NULL;
}

/* --- the products of a trial --- */

struct pl_matmul_trial {
    pl_matmul_shape timed;
    float *a, *b, *c;
};

static int64_t elements(const pl_matmul_shape *s)
{
    return (s->trans_a == PL_TRANS ? s->K : s->M) * s->lda +
           (s->trans_b == PL_TRANS ? s->N : s->K) * s->ldb + s->M * s->ldc;
}

static int64_t *largest_extent(pl_matmul_shape *s)
{
    int64_t *largest = &s->M;

    if (s->N > *largest)
        largest = &s->N;
    if (s->K > *largest)
        largest = &s->K;
    return largest;
}

static pl_matmul_shape part_of(const pl_matmul_shape *shape, double most_flops)
{
    pl_matmul_shape part = *shape;

    while (2.0 * (double)part.M * (double)part.N * (double)part.K > most_flops ||
           elements(&part) > MOST_ELEMENTS) {
        int64_t *extent = largest_extent(&part);

        if (*extent <= LEAST_EXTENT)
            break;
        *extent = (*extent + 1) / 2;
    }
    return part;
}

static float *alloc_filled(int64_t n)
{
    float *x = pl_alloc((size_t)n * sizeof *x);
    uint32_t random = 1;

    for (int64_t i = 0; i < n; i++) {
        random = 1664525 * random + 1013904223;
        x[i] = ((float)(random >> 8) + 0.5f) / (1 << 24) - 0.5f;
    }
    return x;
}

pl_matmul_trial *pl_matmul_trial_create(const pl_matmul_shape *shape, double most_flops)
{
    pl_matmul_trial *trial = pl_alloc(sizeof *trial);
    const pl_matmul_shape s = part_of(shape, most_flops);

    trial->timed = s;
    trial->a = alloc_filled((s.trans_a == PL_TRANS ? s.K : s.M) * s.lda);
    trial->b = alloc_filled((s.trans_b == PL_TRANS ? s.N : s.K) * s.ldb);
    trial->c = alloc_filled(s.M * s.ldc);
    return trial;
}

void pl_matmul_trial_destroy(pl_matmul_trial *trial)
{
    if (trial == NULL)
        return;
    pl_free(trial->a);
    pl_free(trial->b);
    pl_free(trial->c);
    pl_free(trial);
}

static void call_nothing(void *data)
{
    (void)data;
}

static void run_own(const pl_matmul_trial *trial, const pl_progress *progress)
{
    const pl_matmul_shape *s = &trial->timed;

    pl_matmul_run(&(pl_product){.trans_a = s->trans_a,
                                .trans_b = s->trans_b,
                                .M = s->M,
                                .N = s->N,
                                .K = s->K,
                                .dtype = PL_F32,
                                .c_dtype = PL_F32,
                                .a = trial->a,
                                .b = trial->b,
                                .lda = s->lda,
                                .ldb = s->ldb,
                                .ldc = s->ldc,
                                .c = trial->c,
                                .accumulate = s->accumulate,
                                .count = 1,
                                .dots = true},
                  progress);
}

void pl_matmul_trial_run(pl_matmul_trial *trial, bool openblas, bool calls_hook, int n)
{
    const pl_progress hook = {.call = call_nothing};
    const pl_progress *progress = calls_hook ? &hook : NULL;
    const pl_matmul_shape *s = &trial->timed;

    for (int i = 0; i < n; i++)
        if (openblas)
            pl_matmul_openblas(s->trans_a, s->trans_b, s->M, s->N, s->K, trial->a, s->lda, trial->b,
                               s->ldb, s->accumulate, trial->c, s->ldc, progress);
        else
            run_own(trial, progress);
}
