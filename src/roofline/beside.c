#include "config.h"

#include "src/roofline/beside.h"

#include "collectives/engine.h"
#include "kernels/matmul.h"
#include "src/base/clock.h"
#include "src/base/finish.h"
#include "src/base/memory.h"
#include "src/base/panic.h"

#include <math.h>

enum {
    SIDE = 448, /* 1.8e8 FLOPs, nearly what kernels do between calls of their hook */
    QUICK_TRIES = 3,
};

typedef struct {
    const pl_measure *m;
    pl_engine *engine;
    pl_transfer *transfer;
    float *a, *b, *c; /* [SIDE, SIDE] */
    double polled_s;  /* in calls that make progress, by own_clock_s() */
} bench;

/* n products in s seconds; own_s of them they took themselves, not the calls that make progress of
 * a transfer nor, where ranks take turns, whoever else had the core. */
typedef struct {
    int64_t n;
    double s, own_s;
} spell;

/* As kernels of a run are timed. */
static double own_clock_s(const bench *b)
{
    return b->m->take_turns ? pl_used_s() : pl_now_s();
}

static void make_progress(void *data)
{
    bench *b = data;
    const double begin_s = own_clock_s(b);

    pl_engine_progress(b->engine);
    b->polled_s += own_clock_s(b) - begin_s;
}

static void multiply(bench *b)
{
    const pl_progress progress = {make_progress, b};

    pl_matmul(PL_NO_TRANS, PL_NO_TRANS, SIDE, SIDE, SIDE, b->a, SIDE, b->b, SIDE, false, b->c, SIDE,
              &progress);
    make_progress(b);
}

/* Products for at least least_s, and beside one run of the transfer until that is over. Nobody
 * rests before all ranks are that far, since who rests leaves its core to others. */
static spell multiply_for(bench *b, double least_s, bool transfers)
{
    MPI_Request all = MPI_REQUEST_NULL;
    spell spent = {0, 0, 0};
    int everywhere = 0;

    pl_measure_meet(b->m);
    b->polled_s = 0;
    const double begin_s = pl_now_s(), own_from_s = own_clock_s(b);
    if (transfers)
        pl_engine_start(b->engine, b->transfer);
    for (bool here = false; !everywhere; spent.n++) {
        multiply(b);
        spent.s = pl_now_s() - begin_s;
        if (here)
            PL_MPI(MPI_Test(&all, &everywhere, MPI_STATUS_IGNORE));
        else if (spent.s >= least_s && (!transfers || pl_transfer_done(b->transfer))) {
            here = true;
            PL_MPI(MPI_Ibarrier(b->m->comm, &all));
        }
    }
    spent.own_s = own_clock_s(b) - own_from_s - b->polled_s;
    return spent;
}

/* The transfer with no products beside it. */
static double transfer_s(const bench *b)
{
    double s[QUICK_TRIES];

    for (int i = 0; i < QUICK_TRIES; i++) {
        pl_measure_meet(b->m);
        pl_engine_start(b->engine, b->transfer);
        pl_engine_wait(b->engine, b->transfer);
        s[i] = pl_transfer_duration_s(b->transfer);
    }
    return pl_lower_quartile(s, QUICK_TRIES);
}

/* What disturbs a run makes all of it longer; where ranks take turns, a turn more or less makes it
 * longer as often as shorter. */
static double typical(const bench *b, double *s, int n)
{
    return b->m->take_turns ? pl_median(s, n) : pl_lower_quartile(s, n);
}

/* What a product takes alone is measured in turn with those beside the transfer. */
static pl_beside measure(bench *b, int n_tries)
{
    double product_s[PL_BESIDE_TRIES], own_product_s[PL_BESIDE_TRIES], taken_s[PL_BESIDE_TRIES],
        own_s[PL_BESIDE_TRIES], run_s[PL_BESIDE_TRIES];
    spell beside[PL_BESIDE_TRIES];

    for (int i = 0; i < n_tries; i++) {
        const spell alone = multiply_for(b, b->m->window_s, false);

        beside[i] = multiply_for(b, 0, true);
        product_s[i] = alone.s / (double)alone.n;
        own_product_s[i] = alone.own_s / (double)alone.n;
        run_s[i] = pl_transfer_duration_s(b->transfer);
    }
    const double alone_s = typical(b, product_s, n_tries);
    const double own_alone_s = typical(b, own_product_s, n_tries);
    for (int i = 0; i < n_tries; i++) {
        taken_s[i] = beside[i].s - (double)beside[i].n * alone_s;
        own_s[i] = beside[i].own_s - (double)beside[i].n * own_alone_s;
    }
    const double core_s = fmax(typical(b, taken_s, n_tries), 0);
    return (pl_beside){.core_s = core_s,
                       .apart_s = fmax(core_s - fmax(typical(b, own_s, n_tries), 0), 0),
                       .late_s = fmax(typical(b, run_s, n_tries) - transfer_s(b), 0)};
}

pl_beside pl_measure_beside(const pl_measure *m, pl_heap *heap, const pl_group *group,
                            const pl_schedule *schedule, void *const *arrays, int n_arrays,
                            int n_tries)
{
    bench b = {.m = m,
               .engine = pl_engine_create(heap),
               .a = pl_measure_array(NULL, SIDE * SIDE),
               .b = pl_measure_array(NULL, SIDE * SIDE),
               .c = pl_measure_array(NULL, SIDE * SIDE)};

    b.transfer = pl_engine_prepare(b.engine, schedule, group, 0, PL_F32, arrays, n_arrays, NULL,
                                   "calibration");
    const pl_beside own = measure(&b, m->quick ? QUICK_TRIES : n_tries);
    pl_measure_meet(m); /* nobody may still look at what is freed */
    pl_engine_destroy(b.engine);
    pl_heap_free(NULL, b.a);
    pl_heap_free(NULL, b.b);
    pl_heap_free(NULL, b.c);
    return own;
}
