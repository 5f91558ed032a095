#include "config.h"

#include "src/roofline/turns.h"

#include "src/base/clock.h"
#include "src/base/finish.h"
#include "src/base/panic.h"

#include <time.h>

enum { N_TRIES = 3, LONG_WINDOWS = 4 }; /* turns last some ms: windows of 100 ms */

static const double noise = 1.25;

static double core_time_s(void)
{
    struct timespec t;

    PL_ASSERT(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The share of a core that this rank gets while it asks for all of one. */
static double spin_share(double window_s)
{
    const double begin_s = pl_now_s(), begin_core_s = core_time_s();
    double spent_s;

    do
        spent_s = pl_now_s() - begin_s;
    while (spent_s < window_s);
    return (core_time_s() - begin_core_s) / spent_s;
}

/* Waiting for the others must not take the cores that are looked at. */
static double sleep_share(double window_s)
{
    const struct timespec pause = {.tv_sec = (time_t)window_s,
                                   .tv_nsec = (long)(1e9 * (window_s - (double)(time_t)window_s))};

    nanosleep(&pause, NULL);
    return 1;
}

/* The median over a few tries. */
static double share(const pl_measure *m, bool busy)
{
    const double window_s = LONG_WINDOWS * m->window_s;
    double shares[N_TRIES];

    for (int i = 0; i < N_TRIES; i++) {
        pl_measure_meet(m);
        shares[i] = busy ? spin_share(window_s) : sleep_share(window_s);
    }
    return pl_median(shares, N_TRIES);
}

double pl_measure_turns(const pl_measure *m, const pl_topology *topology)
{
    if (topology->n_hosts == 1)
        return 1;
    const double alone = share(m, topology->host == 0), together = share(m, true);
    double turns = topology->host == 0 ? alone / together : 1;
    pl_mpi_all_reduce(m->comm, &turns, 1, MPI_DOUBLE, MPI_MAX);
    return turns > noise ? turns : 1;
}
