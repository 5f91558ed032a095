/* sample -- how long calls take, for several contenders in one run, turn by turn.
 *
 * A sample is a loop of back-to-back calls, long enough for the clock and for what disturbs; its
 * figure is the slowest rank's time per call. Contenders take turns sample by sample, so that what
 * disturbs one disturbs all. Between samples ranks meet; each sample begins with a call that is not
 * timed, which brings the caches and the ranks into the state that back-to-back calls have. */
#ifndef PURLIN_BASE_SAMPLE_H
#define PURLIN_BASE_SAMPLE_H

#include <mpi.h>
#include <stdint.h>

typedef struct {
    MPI_Comm comm; /* all ranks */
    int64_t n_samples, n_warmup;
    double sample_s; /* a sample's least length */
    /* 0, or what all samples of all contenders should take together: then there are fewer of them,
     * but 5 at least, and calls that last ten samples are not made once more to warm up. */
    double budget_s;
} pl_bench_clock;

typedef struct {
    /* One call; the same number of them on all ranks. `number` counts them from 0. */
    void (*call)(void *data, int64_t number);
    void *data;
    /* Before each call, its time left out; NULL: nothing, and the calls are timed as one. */
    void (*before)(void *before_data, int64_t number);
    void *before_data;
    int64_t number; /* calls so far */
    /* found */
    int64_t n_calls;               /* in a sample */
    double call_s;                 /* of a first sample */
    double median_s, min_s, p99_s; /* over samples; p99: the least that 99% don't exceed */
} pl_contender;

/** Time them all; the same figures on all ranks. Collective over clock->comm; polls, as far as the
 * contenders do. */
void pl_contenders_time(const pl_bench_clock *clock, pl_contender *const *contenders, int n);

/* The geometric mean of what was added; what is not positive and finite does not count. */
typedef struct {
    double logs;
    int64_t n;
} pl_geometric;

void pl_geometric_add(pl_geometric *g, double x);
/** NaN of nothing. Local. */
double pl_geometric_mean(const pl_geometric *g);

/** The middle of x[n], the p-th part, of x sorted here. Local. */
double pl_bench_quantile(double *x, int64_t n, double p);

/** The largest x, or the sum, over all ranks. Collective; polls. */
double pl_bench_max(MPI_Comm comm, double x);
int64_t pl_bench_sum(MPI_Comm comm, int64_t x);

#endif
