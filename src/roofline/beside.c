#include "config.h"

#include "src/roofline/beside.h"

#include "collectives/engine.h"
#include "kernels/matmul.h"
#include "src/base/clock.h"
#include "src/base/finish.h"
#include "src/base/memory.h"
#include "src/base/panic.h"

#include <math.h>

enum { SIDE = 256, N_TRIES = 7, N_ALONE = 64 }; /* some ms of products */

typedef struct {
    pl_engine *engine;
    pl_transfer *transfer;
    float *a, *b, *c; /* [SIDE, SIDE] */
} bench;

static void make_progress(void *engine)
{
    pl_engine_progress(engine);
}

static void multiply(const bench *b)
{
    const pl_progress progress = {make_progress, b->engine};

    pl_matmul(PL_NO_TRANS, PL_NO_TRANS, SIDE, SIDE, SIDE, b->a, SIDE, b->b, SIDE, false, b->c, SIDE,
              &progress);
    pl_engine_progress(b->engine);
}

/* Seconds of one product with nothing under way. */
static double alone_s(const bench *b)
{
    const double begin_s = pl_now_s();

    for (int i = 0; i < N_ALONE; i++)
        multiply(b);
    return (pl_now_s() - begin_s) / N_ALONE;
}

/* What one run of the transfer takes of the products that are made until it is over. */
static double taken_s(const bench *b, double product_s)
{
    const double begin_s = pl_now_s();
    int64_t n = 0;

    pl_engine_start(b->engine, b->transfer);
    for (; !pl_transfer_done(b->transfer); n++)
        multiply(b);
    return pl_now_s() - begin_s - (double)n * product_s;
}

static float *matrix(void)
{
    float *x = pl_alloc(SIDE * SIDE * sizeof *x);

    for (int i = 0; i < SIDE * SIDE; i++)
        x[i] = 1;
    return x;
}

double pl_measure_beside_s(const pl_measure *m, pl_heap *heap, const pl_group *group,
                           const pl_schedule *schedule, void *const *arrays, int n_arrays)
{
    bench b = {.engine = pl_engine_create(heap), .a = matrix(), .b = matrix(), .c = matrix()};
    double tries_s[N_TRIES];
    MPI_Request request;

    b.transfer = pl_engine_prepare(b.engine, schedule, group, 0, PL_F32, arrays, n_arrays, NULL,
                                   "calibration");
    for (int i = 0; i < N_TRIES; i++) {
        pl_measure_meet(m);
        const double product_s = alone_s(&b);
        pl_measure_meet(m);
        tries_s[i] = taken_s(&b, product_s);
    }
    double most_s = fmax(pl_median(tries_s, N_TRIES), 0);
    PL_MPI(MPI_Iallreduce(MPI_IN_PLACE, &most_s, 1, MPI_DOUBLE, MPI_MAX, m->comm, &request));
    pl_mpi_finish(&request, 1);
    pl_measure_meet(m); /* nobody may still look at what is freed */
    pl_engine_destroy(b.engine);
    pl_free(b.a);
    pl_free(b.b);
    pl_free(b.c);
    return most_s;
}
