/* measure -- how fast something runs here while every rank is busy with the same.
 *
 * Ranks of a host share its cores and what one gets beyond its share another lacks, so a rate is
 * the mean over the ranks of a host; a step waits for the slowest, so it is the least over hosts.
 */
#ifndef PURLIN_ROOFLINE_MEASURE_H
#define PURLIN_ROOFLINE_MEASURE_H

#include "collectives/schedule.h"
#include "src/mesh/comms.h"
#include "src/mesh/heap.h"
#include "src/mesh/topology.h"

#include <mpi.h>
#include <stdbool.h>

typedef struct {
    MPI_Comm comm;      /* all ranks */
    MPI_Comm host_comm; /* the ranks of this host, by rank_on_host */
    int ranks_on_host;
    bool take_turns; /* on cores: not every rank has one to itself */
    bool quick;      /* few and short measurements: figures that are there rather than right */
    int n_windows;   /* that collectives are timed in */
    double window_s; /* of one window; long against the scheduler's turns when ranks take turns */
    double *spread;  /* of what pl_measure_part_s() and those that call it have measured last: the
                      * middle half of its windows, over their median */
} pl_measure;

typedef void (*pl_measured)(void *data);

/** Collective over comm. */
void pl_measure_init(pl_measure *m, MPI_Comm comm, const pl_topology *topology, bool quick);
/** Whether ranks take turns on cores, where that is known better than by the topology. Local. */
void pl_measure_set_turns(pl_measure *m, bool take_turns);
/** Collective over comm. */
void pl_measure_free(pl_measure *m);

/** y = a + b, n elements each: what memory's rates are measured by. */
typedef struct {
    int64_t n;
    float *a, *b, *y;
} pl_sum;

/** Such a sum, `data` being a pl_sum. Local. */
void pl_run_sum(void *data);

/** Runs of run(data) per second on one rank, over one window; run is local. The same on all ranks.
 * Collective over comm. */
double pl_measure_rate(const pl_measure *m, pl_measured run, void *data);

/** Seconds that one run(data) takes on the slowest rank, the lower quartile of n_windows (what
 * disturbs one makes it slower), each an eighth of window_s at least; run is collective: all ranks
 * run it equally often (ranks that have no part in it pass a run that does nothing). The same on
 * all ranks. Collective over comm. */
double pl_measure_time_s(const pl_measure *m, pl_measured run, void *data);

/** The same of a part of run(): what it adds to *part_s. */
double pl_measure_part_s(const pl_measure *m, pl_measured run, void *data, const double *part_s);

/** Seconds of one run of a schedule over a group in m->comm (all groups at once), f32, without
 * scratch, as pl_measure_time_s(). Collective over m->comm. */
double pl_measure_schedule_s(const pl_measure *m, pl_heap *heap, const pl_group *group,
                             const pl_schedule *schedule, void *const *arrays, int n_arrays);

/** n ones, in the heap (NULL: elsewhere); to be freed with pl_heap_free(). What is moved must not be
 * zeros: some CPUs are faster with lines of them (two cores of a Zen 5 gather 32 MiB over and over: 59
 * GB/s each, and 34 of ones or of random numbers), and no training consists of them. Local. */
float *pl_measure_array(pl_heap *heap, int64_t n);

/** All ranks arrive before any goes on. Collective over m->comm. */
void pl_measure_meet(const pl_measure *m);

/** The middle of x[n] (the upper one of two), which is sorted. Local. */
double pl_median(double *x, int n);

/** x[n / 4], n at least 1, of x[n], which is sorted. Local. */
double pl_lower_quartile(double *x, int n);

#endif
