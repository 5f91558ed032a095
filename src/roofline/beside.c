#include "config.h"

#include "src/roofline/beside.h"

#include "collectives/engine.h"
#include "kernels/matmul.h"
#include "src/base/clock.h"
#include "src/base/finish.h"
#include "src/base/memory.h"
#include "src/base/panic.h"

#include <math.h>

enum { SIDE = 256, N_TRIES = 15, QUICK_TRIES = 3 };

typedef struct {
    const pl_measure *m;
    pl_engine *engine;
    pl_transfer *transfer;
    float *a, *b, *c; /* [SIDE, SIDE] */
} bench;

/* n products in s seconds. */
typedef struct {
    int64_t n;
    double s;
} spell;

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

/* Products for at least least_s, and beside one run of the transfer until that is over. Nobody rests
 * before all ranks are that far, since who rests leaves its core to others. */
static spell multiply_for(const bench *b, double least_s, bool transfers)
{
    MPI_Request all = MPI_REQUEST_NULL;
    spell spent = {0, 0};
    int everywhere = 0;

    pl_measure_meet(b->m);
    const double begin_s = pl_now_s();
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
    return spent;
}

/* What one run of the transfer takes of the products beside it: the median over tries, by what a
 * product takes alone, in turn with them. */
static double taken_s(const bench *b, int n_tries)
{
    double product_s[N_TRIES], taken_s[N_TRIES];
    spell beside[N_TRIES];

    for (int i = 0; i < n_tries; i++) {
        const spell alone = multiply_for(b, b->m->window_s, false);

        beside[i] = multiply_for(b, 0, true);
        product_s[i] = alone.s / (double)alone.n;
    }
    const double alone_s = pl_median(product_s, n_tries);
    for (int i = 0; i < n_tries; i++)
        taken_s[i] = beside[i].s - (double)beside[i].n * alone_s;
    return pl_median(taken_s, n_tries);
}

double pl_measure_beside_s(const pl_measure *m, pl_heap *heap, const pl_group *group,
                           const pl_schedule *schedule, void *const *arrays, int n_arrays)
{
    bench b = {
        .m = m,
        .engine = pl_engine_create(heap),
        .a = pl_measure_array(NULL, SIDE * SIDE),
        .b = pl_measure_array(NULL, SIDE * SIDE),
        .c = pl_measure_array(NULL, SIDE * SIDE)};

    b.transfer = pl_engine_prepare(b.engine, schedule, group, 0, PL_F32, arrays, n_arrays, NULL,
                                   "calibration");
    double most_s = fmax(taken_s(&b, m->quick ? QUICK_TRIES : N_TRIES), 0);
    pl_mpi_all_reduce(m->comm, &most_s, 1, MPI_DOUBLE, MPI_MAX);
    pl_measure_meet(m); /* nobody may still look at what is freed */
    pl_engine_destroy(b.engine);
    pl_heap_free(NULL, b.a);
    pl_heap_free(NULL, b.b);
    pl_heap_free(NULL, b.c);
    return most_s;
}
