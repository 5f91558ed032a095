#include "config.h"

#include "src/collbench/overlap.h"

#include "kernels/matmul.h"
#include "src/base/memory.h"

#include <math.h>

enum { SIDE = 256, MOST_ROWS = 4096 }; /* a[rows, SIDE] . b[SIDE, SIDE] */

typedef struct {
    pl_bench_ours *ours;
    pl_progress progress;
    int64_t rows; /* of one product */
    int64_t n_products;
    float *a, *b, *c;
} overlap;

static void make_progress(void *data)
{
    pl_engine_progress(data);
}

static void multiply(void *data, int64_t number)
{
    const overlap *o = data;

    (void)number;
    for (int64_t i = 0; i < o->n_products; i++) {
        pl_matmul(PL_NO_TRANS, PL_NO_TRANS, o->rows, SIDE, SIDE, o->a, SIDE, o->b, SIDE, false,
                  o->c, SIDE, &o->progress);
        pl_progress_call(&o->progress);
    }
}

static void both(void *data, int64_t number)
{
    const overlap *o = data;
    pl_transfer *t = o->ours->transfers[number % o->ours->n_sets];

    pl_engine_start(o->ours->engine, t);
    multiply(data, number);
    pl_engine_wait(o->ours->engine, t);
}

double pl_bench_overlap(pl_bench *b, pl_bench_ours *ours, double time_s)
{
    const double row_flops = 2.0 * SIDE * SIDE;
    const double rate = pl_curve_at(&b->machine.matmul_flops_per_s, time_s * 1e11);
    const int64_t rows = (int64_t)fmax(1, time_s * rate / row_flops);
    overlap o = {.ours = ours,
                 .progress = {make_progress, ours->engine},
                 .n_products = (rows + MOST_ROWS - 1) / MOST_ROWS};
    pl_contender alone = {.call = pl_bench_ours_call, .data = ours},
                 matmul = {.call = multiply, .data = &o}, together = {.call = both, .data = &o};
    pl_contender *contenders[] = {&alone, &matmul, &together};

    o.rows = (rows + o.n_products - 1) / o.n_products;
    o.a = pl_alloc((size_t)o.rows * SIDE * sizeof *o.a);
    o.b = pl_alloc((size_t)SIDE * SIDE * sizeof *o.b);
    o.c = pl_alloc((size_t)o.rows * SIDE * sizeof *o.c);
    pl_contenders_time(&b->clock, contenders, 3);
    pl_free(o.a);
    pl_free(o.b);
    pl_free(o.c);
    const double hidden = (alone.median_s + matmul.median_s - together.median_s) / alone.median_s;
    return fmin(fmax(hidden, 0), 1);
}
