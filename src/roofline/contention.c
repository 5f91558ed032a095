#include "config.h"

#include "src/roofline/contention.h"

#include "src/base/clock.h"
#include "src/base/finish.h"
#include "src/base/memory.h"
#include "src/base/panic.h"

#include <math.h>
#include <sched.h>

enum { N_TRIES = 5, APART = 272 };

/* Whoever measures runs for a window, and the others meet it at its end: waiting takes no memory's
 * time. The least rate over hosts of the mean over those of a host that measured. */
static double rate_of(const pl_measure *m, bool measures, int n_measuring, pl_sum *s)
{
    double spent_s = 0, rate;
    int64_t n = 0;

    pl_measure_meet(m);
    const double begin_s = pl_now_s();
    while (measures && spent_s < m->window_s) {
        pl_run_sum(s);
        n++;
        spent_s = pl_now_s() - begin_s;
    }
    rate = measures ? (double)n / spent_s / n_measuring : 0;
    pl_mpi_all_reduce(m->host_comm, &rate, 1, MPI_DOUBLE, MPI_SUM);
    pl_mpi_all_reduce(m->comm, &rate, 1, MPI_DOUBLE, MPI_MIN);
    return rate;
}

static double range_of(const double sorted[N_TRIES], double median)
{
    return (sorted[N_TRIES - 1] - sorted[0]) / median;
}

/* One rank beside all, in turn, so that what the machine does meanwhile is done to both. */
static void measure_memory(const pl_measure *m, int64_t largest, pl_machine *machine)
{
    const int64_t n = largest / (3 * (int64_t)sizeof(float));
    float *all = pl_measure_array(NULL, 3 * (n + APART));
    pl_sum s = {.n = n, .a = all, .b = all + n + APART, .y = all + 2 * (n + APART)};
    double ratio[N_TRIES];
    int rank;

    PL_MPI(MPI_Comm_rank(m->host_comm, &rank));
    for (int i = 0; i < N_TRIES; i++) {
        const double alone = rate_of(m, rank == 0, 1, &s);

        /* all that share its core may then have had only a part of it */
        ratio[i] = alone / (rate_of(m, true, m->ranks_on_host, &s) * machine->ranks_per_core);
    }
    pl_heap_free(NULL, all);
    const double median = pl_median(ratio, N_TRIES);
    machine->memory_contention = fmax(median, 1);
    machine->spread.memory_contention = range_of(ratio, median);
}

/* All ranks leave their cores over and over: as many turns as all of a core's have had. */
static void measure_handover(const pl_measure *m, pl_machine *machine)
{
    double turn_s[N_TRIES];

    for (int i = 0; i < N_TRIES; i++) {
        double spent_s = 0, n = 0;

        pl_measure_meet(m);
        const double begin_s = pl_now_s();
        while (spent_s < m->window_s) {
            sched_yield();
            n++;
            spent_s = pl_now_s() - begin_s;
        }
        turn_s[i] = spent_s / (n * machine->ranks_per_core);
        pl_mpi_all_reduce(m->comm, &turn_s[i], 1, MPI_DOUBLE, MPI_MAX);
    }
    machine->handover_s = pl_median(turn_s, N_TRIES);
    machine->spread.handover_s = range_of(turn_s, machine->handover_s);
}

/* The median of this rank's slices, of which the first and the last are not whole: it spins, and
 * sees others' slices as jumps of the clock. Less than a slice if the window holds none. */
static double own_slice_s(double window_s)
{
    enum { MOST_SLICES = 256 };
    const double least_s = 1e-4; /* other interruptions are shorter */
    const double begin_s = pl_now_s();
    double slice_s[MOST_SLICES], since_s = INFINITY, last_s = begin_s;
    int n = 0;

    while (last_s - begin_s < window_s && n < MOST_SLICES) {
        const double now_s = pl_now_s();

        if (now_s - last_s > least_s) {
            if (isfinite(since_s))
                slice_s[n++] = last_s - since_s;
            since_s = now_s;
        }
        last_s = now_s;
    }
    return n > 0 ? pl_median(slice_s, n) : last_s - begin_s;
}

/* How long a rank keeps its core while others ask for it: all of them do. The mean over ranks. */
static void measure_slice(const pl_measure *m, pl_machine *machine)
{
    enum { WINDOWS = 4 };
    int n_ranks;

    PL_MPI(MPI_Comm_size(m->comm, &n_ranks));
    pl_measure_meet(m);
    const double own_s = own_slice_s(WINDOWS * m->window_s);
    double most_s = own_s, least_s = own_s, mean_s = own_s / n_ranks;
    pl_mpi_all_reduce(m->comm, &most_s, 1, MPI_DOUBLE, MPI_MAX);
    pl_mpi_all_reduce(m->comm, &least_s, 1, MPI_DOUBLE, MPI_MIN);
    pl_mpi_all_reduce(m->comm, &mean_s, 1, MPI_DOUBLE, MPI_SUM);
    machine->slice_s = mean_s;
    machine->spread.slice_s = (most_s - least_s) / mean_s;
}

void pl_measure_contention(const pl_measure *m, int64_t largest, pl_machine *machine)
{
    int most = m->ranks_on_host;

    pl_mpi_all_reduce(m->comm, &most, 1, MPI_INT, MPI_MAX);
    if (most > 1)
        measure_memory(m, largest, machine);
    if (machine->ranks_per_core > 1) {
        measure_handover(m, machine);
        measure_slice(m, machine);
    }
}
