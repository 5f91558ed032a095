#include "config.h"

#include "src/roofline/measure.h"

#include "collectives/engine.h"
#include "kernels/elementwise.h"
#include "src/base/clock.h"
#include "src/base/finish.h"
#include "src/base/memory.h"
#include "src/base/panic.h"

enum { MOST_WINDOWS = 7, SHARED_WINDOWS = 5, QUICK_WINDOWS = 3, N_TRIES = 3, MOST_RUNS = 1 << 24 };

/* Reading the clock costs some tens of ns: not worth noticing per batch of this length. */
static const double batch_s = 20e-6;

void pl_measure_set_turns(pl_measure *m, bool take_turns)
{
    m->take_turns = take_turns;
    m->n_windows = m->quick ? QUICK_WINDOWS : take_turns ? SHARED_WINDOWS : MOST_WINDOWS;
    m->window_s = (take_turns ? 0.050 : 0.025) / (m->quick ? 5 : 1);
}

void pl_measure_init(pl_measure *m, MPI_Comm comm, const pl_topology *topology, bool quick)
{
    *m = (pl_measure){.comm = comm, .ranks_on_host = topology->ranks_on_host, .quick = quick};
    m->spread = pl_alloc(sizeof *m->spread);
    pl_measure_set_turns(m, topology->oversubscribed);
    PL_MPI(MPI_Comm_split(comm, topology->host, topology->rank_on_host, &m->host_comm));
}

void pl_measure_free(pl_measure *m)
{
    PL_MPI(MPI_Comm_free(&m->host_comm));
    pl_free(m->spread);
}

static double reduce(MPI_Comm comm, double x, MPI_Op op)
{
    pl_mpi_all_reduce(comm, &x, 1, MPI_DOUBLE, op);
    return x;
}

float *pl_measure_array(pl_heap *heap, int64_t n)
{
    float *x = pl_heap_alloc(heap, (size_t)n * sizeof *x);

    for (int64_t i = 0; i < n; i++)
        x[i] = 1;
    return x;
}

void pl_measure_meet(const pl_measure *m)
{
    pl_mpi_meet(m->comm);
}

double pl_median(double *x, int n)
{
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && x[k] < x[k - 1]; k--) {
            const double larger = x[k - 1];

            x[k - 1] = x[k];
            x[k] = larger;
        }
    return x[n / 2];
}

double pl_lower_quartile(double *x, int n)
{
    pl_median(x, n); /* sorts */
    return x[n / 4];
}

void pl_run_sum(void *data)
{
    const pl_sum *s = data;

    pl_add(s->n, s->a, s->b, s->y);
}

/* Seconds of n runs. */
static double time_runs(pl_measured run, void *data, int64_t n)
{
    const double begin_s = pl_now_s();

    for (int64_t i = 0; i < n; i++)
        run(data);
    return pl_now_s() - begin_s;
}

/* Runs that take batch_s. Tried several times, for a rank that lost its core meanwhile would seem
 * to need fewer. */
static int64_t batch_of(pl_measured run, void *data)
{
    int64_t n = 1;

    for (;; n *= 2) {
        int n_long = 0;

        while (n_long < N_TRIES && time_runs(run, data, n) >= batch_s)
            n_long++;
        if (n_long == N_TRIES)
            return n;
    }
}

double pl_measure_rate(const pl_measure *m, pl_measured run, void *data)
{
    double spent_s = 0;
    int64_t n = 0;

    run(data); /* caches, page tables, lazy set-up of libraries */
    const int64_t batch = batch_of(run, data);
    pl_measure_meet(m);
    const double begin_s = pl_now_s();
    do {
        time_runs(run, data, batch);
        n += batch;
        spent_s = pl_now_s() - begin_s;
    } while (spent_s < m->window_s);
    const double on_host = reduce(m->host_comm, (double)n / spent_s, MPI_SUM);
    return reduce(m->comm, on_host / m->ranks_on_host, MPI_MIN);
}

/* Seconds of n runs, or what they add to *part_s. */
static double time_part(pl_measured run, void *data, int64_t n, const double *part_s)
{
    const double before_s = part_s != NULL ? *part_s : 0, all_s = time_runs(run, data, n);

    return part_s != NULL ? *part_s - before_s : all_s;
}

double pl_measure_part_s(const pl_measure *m, pl_measured run, void *data, const double *part_s)
{
    double times_s[MOST_WINDOWS];
    int64_t n = 1;

    /* all ranks must run equally often: as often as fills an eighth of m->window_s at least on the
     * slowest */
    while (n < MOST_RUNS && reduce(m->comm, time_runs(run, data, n), MPI_MAX) < m->window_s / 8)
        n *= 2;
    for (int w = 0; w < m->n_windows; w++) {
        pl_measure_meet(m);
        times_s[w] = reduce(m->comm, time_part(run, data, n, part_s) / (double)n, MPI_MAX);
    }
    const double quartile_s = pl_lower_quartile(times_s, m->n_windows); /* sorts */
    *m->spread = (times_s[3 * m->n_windows / 4] - quartile_s) / times_s[m->n_windows / 2];
    return quartile_s;
}

double pl_measure_time_s(const pl_measure *m, pl_measured run, void *data)
{
    return pl_measure_part_s(m, run, data, NULL);
}

typedef struct {
    pl_engine *engine;
    pl_transfer *transfer;
} prepared;

static void start_and_wait(void *data)
{
    const prepared *p = data;

    pl_engine_start(p->engine, p->transfer);
    pl_engine_wait(p->engine, p->transfer);
}

double pl_measure_schedule_s(const pl_measure *m, pl_heap *heap, const pl_group *group,
                             const pl_schedule *schedule, void *const *arrays, int n_arrays)
{
    pl_engine *engine = pl_engine_create(heap);
    prepared p = {.engine = engine,
                  .transfer = pl_engine_prepare(engine, schedule, group, 0, PL_F32, arrays,
                                                n_arrays, NULL, "calibration")};
    const double time_s = pl_measure_time_s(m, start_and_wait, &p);

    pl_measure_meet(m); /* nobody may still look at what is freed */
    pl_engine_destroy(engine);
    return time_s;
}
