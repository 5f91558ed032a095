#include "config.h"

#include "src/base/sample.h"

#include "src/base/clock.h"
#include "src/base/finish.h"
#include "src/base/memory.h"
#include "src/base/panic.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

enum { MOST_CALLS = 1 << 22, FEWEST_SAMPLES = 5 };

double pl_bench_max(MPI_Comm comm, double x)
{
    pl_mpi_all_reduce(comm, &x, 1, MPI_DOUBLE, MPI_MAX);
    return x;
}

int64_t pl_bench_sum(MPI_Comm comm, int64_t x)
{
    pl_mpi_all_reduce(comm, &x, 1, MPI_INT64_T, MPI_SUM);
    return x;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double pl_bench_quantile(double *x, int64_t n, double p)
{
    const int64_t rank = (int64_t)ceil(p * (double)n);

    qsort(x, (size_t)n, sizeof *x, ascending);
    if (p == 0.5 && n % 2 == 0)
        return 0.5 * (x[n / 2 - 1] + x[n / 2]);
    return x[rank > 0 ? rank - 1 : 0];
}

void pl_geometric_add(pl_geometric *g, double x)
{
    if (x > 0 && isfinite(x)) {
        g->logs += log(x);
        g->n++;
    }
}

double pl_geometric_mean(const pl_geometric *g)
{
    return g->n > 0 ? exp(g->logs / (double)g->n) : NAN;
}

static void call(pl_contender *c)
{
    if (c->before != NULL)
        c->before(c->before_data, c->number);
    c->call(c->data, c->number++);
}

/* Seconds that a call takes here, in a loop of n. */
static double time_calls(pl_contender *c, int64_t n)
{
    const double begin_s = pl_now_s();
    double left_out_s = 0;

    for (int64_t i = 0; i < n; i++) {
        if (c->before != NULL) {
            const double before_s = pl_now_s();

            c->before(c->before_data, c->number);
            left_out_s += pl_now_s() - before_s;
        }
        c->call(c->data, c->number++);
    }
    return (pl_now_s() - begin_s - left_out_s) / (double)n;
}

/* Whether a sample begins with a call that is not timed. */
static bool warms_up(const pl_bench_clock *clock, const pl_contender *c)
{
    return clock->budget_s <= 0 || c->call_s < 10 * clock->sample_s;
}

static double time_sample(const pl_bench_clock *clock, pl_contender *c)
{
    pl_mpi_meet(clock->comm);
    if (warms_up(clock, c))
        call(c);
    return time_calls(c, c->n_calls);
}

/* As many calls as last a sample; a fifth more, for some samples will be faster than this one. */
static void settle(const pl_bench_clock *clock, pl_contender *c)
{
    for (int64_t i = 0; i < clock->n_warmup; i++)
        call(c);
    c->n_calls = 1;
    for (;;) {
        const double call_s = pl_bench_max(clock->comm, time_sample(clock, c));
        const double wanted = ceil(1.2 * clock->sample_s / (call_s > 1e-9 ? call_s : 1e-9));

        c->call_s = call_s;
        if (call_s * (double)c->n_calls >= clock->sample_s || c->n_calls >= MOST_CALLS)
            break;
        /* the first calls may be slow ones: no leaps */
        c->n_calls = (int64_t)fmin(fmax(wanted, (double)c->n_calls + 1), 16.0 * (double)c->n_calls);
    }
}

/* As many samples as the budget allows. call_s is the same on all ranks, so all find the same. */
static int64_t count_samples(const pl_bench_clock *clock, pl_contender *const *contenders, int n)
{
    double round_s = 0, samples;

    if (clock->budget_s <= 0)
        return clock->n_samples;
    for (int i = 0; i < n; i++) {
        const pl_contender *c = contenders[i];

        round_s += c->call_s * (double)(c->n_calls + warms_up(clock, c));
    }
    samples = fmin(clock->budget_s / round_s, (double)clock->n_samples);
    return samples > FEWEST_SAMPLES ? (int64_t)samples : FEWEST_SAMPLES;
}

static void summarize(int64_t n, pl_contender *c, double *samples_s)
{
    c->median_s = pl_bench_quantile(samples_s, n, 0.5);
    c->min_s = samples_s[0];
    c->p99_s = pl_bench_quantile(samples_s, n, 0.99);
}

void pl_contenders_time(const pl_bench_clock *clock, pl_contender *const *contenders, int n)
{
    for (int i = 0; i < n; i++)
        settle(clock, contenders[i]);
    const int64_t n_samples = count_samples(clock, contenders, n), n_all = n_samples * n;
    double *samples_s = pl_alloc((size_t)n_all * sizeof *samples_s);
    for (int64_t s = 0; s < n_samples; s++)
        for (int k = 0; k < n; k++) {
            const int i = (int)((s + k) % n); /* each begins a round once in n */

            samples_s[i * n_samples + s] = time_sample(clock, contenders[i]);
        }
    pl_mpi_all_reduce(clock->comm, samples_s, (int)n_all, MPI_DOUBLE, MPI_MAX);
    for (int i = 0; i < n; i++)
        summarize(n_samples, contenders[i], samples_s + i * n_samples);
    pl_free(samples_s);
}
