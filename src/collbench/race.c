#include "config.h"

#include "src/collbench/race.h"

#include "collectives/algorithms.h"
#include "src/base/agree.h"
#include "src/base/finish.h"
#include "src/base/log.h"
#include "src/base/memory.h"
#include "src/base/units.h"
#include "src/collbench/ours.h"
#include "src/collbench/point.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_RUNNERS = 32, MOST_SIZES = 256, OVERRIDE = 96 };

typedef struct {
    const char *name;
    pl_bench_ours ours;
    pl_contender contender;
    pl_bench_renewal anew;
    double predicted_s;
    int64_t wrong;
} runner;

/* One size of the race, in short. */
typedef struct {
    int64_t bytes;
    const char *predicted, *measured; /* the fastest by either */
    double regret;                    /* of the choice */
} lap;

/* The algorithms that can do the case. */
static int enter(const pl_bench *b, const pl_bench_case *c, runner *runners)
{
    pl_arena *arena = pl_arena_create();
    const pl_collective_call call = pl_bench_call(arena, c);
    int n = 0;

    for (int a = 0; a < pl_n_algorithms && n < MOST_RUNNERS; a++)
        if (pl_algorithms[a].collective == c->collective &&
            pl_algorithm_applies(&pl_algorithms[a], &call, &b->site))
            runners[n++] = (runner){.name = pl_algorithms[a].name};
    pl_arena_destroy(arena);
    return n;
}

static void open_runner(pl_bench *b, runner *r, const pl_bench_case *c, const pl_bench_sets *sets,
                        int tag)
{
    char override[OVERRIDE];
    const pl_chooser chooser = {.machine = &b->machine, .algo = override};

    snprintf(override, sizeof override, "%s=%s", pl_collective_key(c->collective), r->name);
    pl_bench_ours_open(&r->ours, c, sets, b->group, &b->site, &chooser, tag);
    r->contender = (pl_contender){.call = pl_bench_ours_call, .data = &r->ours};
    if (b->options->fresh) {
        r->anew = (pl_bench_renewal){c, sets->n, (const pl_bench_set *)sets->sets};
        r->contender.before = pl_bench_renewal_call;
        r->contender.before_data = &r->anew;
    }
    r->predicted_s = pl_bench_max(b->world, r->ours.price_s) + b->machine.comm_overhead_s;
}

static void verify(pl_bench *b, runner *r, const pl_bench_case *c, const pl_bench_sets *sets)
{
    if (!b->options->check)
        return;
    pl_bench_fill(c, sets->sets[0]);
    pl_mpi_meet(b->world);
    pl_bench_ours_call(&r->ours, 0);
    pl_mpi_meet(b->world);
    r->wrong += pl_bench_sum(b->world, pl_bench_count_wrong(c, (const void *const *)sets->sets[0]));
}

/* The name that the chooser takes. */
static const char *choice_of(const pl_bench *b, const pl_bench_case *c)
{
    const pl_chooser chooser = {.machine = &b->machine};
    pl_arena *arena = pl_arena_create();
    const pl_collective_call call = pl_bench_call(arena, c);
    const char *name = NULL;

    pl_schedule_destroy(pl_collective_schedule(&call, &chooser, &b->site, c->rank, &name));
    pl_arena_destroy(arena);
    return name;
}

static lap judge(const pl_bench_case *c, const runner *runners, int n, const char *chosen)
{
    const runner *first = &runners[0], *cheapest = &runners[0];
    lap l = {.bytes = c->count * (int64_t)pl_dtype_bytes(c->dtype)};
    double chosen_s = NAN;

    for (int i = 0; i < n; i++) {
        if (runners[i].contender.median_s < first->contender.median_s)
            first = &runners[i];
        if (runners[i].predicted_s < cheapest->predicted_s)
            cheapest = &runners[i];
        if (strcmp(runners[i].name, chosen) == 0)
            chosen_s = runners[i].contender.median_s;
    }
    l.predicted = cheapest->name;
    l.measured = first->name;
    l.regret = chosen_s / first->contender.median_s - 1;
    return l;
}

static void print_lap(const lap *l, const runner *runners, int n, const char *chosen)
{
    for (int i = 0; i < n; i++) {
        const runner *r = &runners[i];

        pl_print("%12lld  %-28s %11.2f %11.2f %+7.1f %7lld  %s%s\n", (long long)l->bytes, r->name,
                 1e6 * r->predicted_s, 1e6 * r->contender.median_s,
                 100 * (r->predicted_s / r->contender.median_s - 1), (long long)r->wrong,
                 strcmp(r->name, chosen) == 0 ? "chosen " : "",
                 strcmp(r->name, l->measured) == 0 ? "fastest" : "");
    }
    if (pl_log_rank() == 0)
        fflush(stdout);
}

static pl_status record(pl_bench *b, const pl_bench_case *c, const runner *runners, int n)
{
    pl_status status = PL_OK;

    for (int i = 0; i < n && status == PL_OK; i++) {
        const runner *r = &runners[i];
        pl_bench_point p = {.c = *c,
                            .time_s = r->contender.median_s,
                            .min_s = r->contender.min_s,
                            .p99_s = r->contender.p99_s,
                            .predicted_s = r->predicted_s,
                            .limit_s = NAN,
                            .mpi_s = NAN,
                            .hidden = NAN,
                            .wrong = b->options->check ? r->wrong : -1};

        snprintf(p.algo, sizeof p.algo, "%s", r->name);
        status = pl_bench_records_add(&b->records, &p);
    }
    return pl_agree(b->world, status);
}

static pl_status run_lap(pl_bench *b, const pl_bench_case *c, lap *result, int64_t *wrong)
{
    runner runners[MOST_RUNNERS];
    pl_contender *contenders[MOST_RUNNERS];
    const int n = enter(b, c, runners);
    const char *chosen = choice_of(b, c);
    pl_bench_sets sets;

    pl_bench_sets_open(&sets, c, b->heap, pl_bench_n_sets(b, c));
    for (int i = 0; i < n; i++) {
        open_runner(b, &runners[i], c, &sets, i);
        contenders[i] = &runners[i].contender;
    }
    for (int set = 0; set < sets.n; set++)
        pl_bench_fill(c, sets.sets[set]);
    pl_mpi_meet(b->world);
    for (int i = 0; i < n; i++)
        verify(b, &runners[i], c, &sets);
    pl_contenders_time(&b->clock, contenders, n);
    *result = judge(c, runners, n, chosen);
    print_lap(result, runners, n, chosen);
    const pl_status status = record(b, c, runners, n);
    pl_mpi_meet(b->world);
    for (int i = 0; i < n; i++) {
        *wrong += runners[i].wrong;
        pl_bench_ours_close(&runners[i].ours);
    }
    pl_bench_sets_close(&sets);
    return status;
}

static void print_crossovers(const char *by, const lap *laps, int n, bool measured)
{
    const char *last = NULL;

    pl_print("fastest, %s:", by);
    for (int i = 0; i < n; i++) {
        const char *name = measured ? laps[i].measured : laps[i].predicted;

        if (last == NULL || strcmp(name, last) != 0)
            pl_print("%s %s from %lld B", last == NULL ? "" : ";", name, (long long)laps[i].bytes);
        last = name;
    }
    pl_print("\n");
}

static void print_regret(const lap *laps, int n)
{
    double regrets[MOST_SIZES];

    for (int i = 0; i < n; i++)
        regrets[i] = laps[i].regret;
    const double median = pl_bench_quantile(regrets, n, 0.5);
    pl_print("regret of the choice: median %.1f%%, worst %.1f%% over %d sizes\n", 100 * median,
             100 * regrets[n - 1], n);
}

pl_status pl_bench_race(pl_bench *b, pl_collective collective, pl_dtype dtype,
                        pl_reduction reduction, int64_t *wrong)
{
    const pl_bench_options *o = b->options;
    pl_status status = PL_OK;
    lap laps[MOST_SIZES] = {{0}};
    int n = 0;

    pl_print("\n%s, %s%s, %d ranks, out of place\n", pl_collective_name(collective),
             pl_dtype_name(dtype),
             !pl_bench_reduces(collective) ? ""
             : reduction == PL_SUM         ? ", sum"
                                           : ", max",
             b->group->size);
    pl_print("%12s  %-28s %11s %11s %7s %7s\n", "size B", "algo", "predicted us", "time us",
             "error %", "#wrong");
    for (int64_t bytes = o->min_bytes; bytes <= o->max_bytes && n < MOST_SIZES && status == PL_OK;
         bytes = pl_bench_next_bytes(o, bytes)) {
        const pl_bench_case c = {.collective = collective,
                                 .dtype = dtype,
                                 .reduction = reduction,
                                 .count = pl_bench_count(collective, bytes, dtype, b->group->size),
                                 .n_ranks = b->group->size,
                                 .rank = b->group->rank};
        status = run_lap(b, &c, &laps[n++], wrong);
    }
    print_crossovers("predicted", laps, n, false);
    print_crossovers("measured", laps, n, true);
    print_regret(laps, n);
    return status;
}
