/* ours -- a case on the engine: schedule, transfers, and the arrays that contenders share. */
#ifndef PURLIN_COLLBENCH_OURS_H
#define PURLIN_COLLBENCH_OURS_H

#include "collectives/engine.h"
#include "src/collbench/case.h"
#include "src/mesh/comms.h"

typedef void *pl_bench_set[PL_BENCH_ARRAYS];

/* Arrays of a case, in the heap: n of each, used in turn. */
typedef struct {
    pl_heap *heap;
    int n;
    pl_bench_set *sets; /* [n] */
} pl_bench_sets;

/** In the same order on all ranks. Local. */
void pl_bench_sets_open(pl_bench_sets *sets, const pl_bench_case *c, pl_heap *heap, int n);
/** When nobody reads or writes them any more. Local. */
void pl_bench_sets_close(pl_bench_sets *sets);

/* What is written again before each call on set number % n, with --fresh. */
typedef struct {
    const pl_bench_case *c;
    int n;
    const pl_bench_set *sets; /* [n] */
} pl_bench_renewal;

/** pl_bench_renew() on the set of that number. `data`: pl_bench_renewal. Local. */
void pl_bench_renewal_call(void *data, int64_t number);

typedef struct {
    const pl_bench_case *c;
    pl_arena *arena;
    pl_schedule *schedule;
    pl_engine *engine;
    int n_sets;
    pl_transfer **transfers; /* [n_sets] */
    void *scratch;
    const char *algo;
    double price_s; /* predicted, this rank, but for what starting a collective costs; NaN without
                     * a machine */
} pl_bench_ours;

/** Choose, write and prepare. `tag` tells cases that are open at once apart. Everything is kept.
 * Collective over the group in this sense: same order on all ranks, which meet before the first
 * call. */
void pl_bench_ours_open(pl_bench_ours *ours, const pl_bench_case *c, const pl_bench_sets *sets,
                        const pl_group *group, const pl_site *site, const pl_chooser *chooser,
                        int tag);
/** When no rank is in a call any more. Local. */
void pl_bench_ours_close(pl_bench_ours *ours);

/** Start and wait. `data`: pl_bench_ours. */
void pl_bench_ours_call(void *data, int64_t number);

#endif
