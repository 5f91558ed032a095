#include "config.h"

#include "src/collbench/ours.h"

#include "collectives/cost.h"
#include "src/base/memory.h"

#include <math.h>

void pl_bench_sets_open(pl_bench_sets *sets, const pl_bench_case *c, pl_heap *heap, int n)
{
    *sets = (pl_bench_sets){.heap = heap, .n = n};
    sets->sets = pl_alloc((size_t)n * sizeof *sets->sets);
    for (int s = 0; s < n; s++)
        for (int a = 0; a < PL_BENCH_ARRAYS; a++)
            sets->sets[s][a] =
                pl_heap_alloc(heap, (size_t)pl_bench_elements(c, a) * pl_dtype_bytes(c->dtype));
}

void pl_bench_sets_close(pl_bench_sets *sets)
{
    for (int s = 0; s < sets->n; s++)
        for (int a = 0; a < PL_BENCH_ARRAYS; a++)
            pl_heap_free(sets->heap, sets->sets[s][a]);
    pl_free(sets->sets);
}

void pl_bench_renewal_call(void *data, int64_t number)
{
    const pl_bench_renewal *r = data;

    pl_bench_renew(r->c, r->sets[number % r->n]);
}

void pl_bench_ours_open(pl_bench_ours *o, const pl_bench_case *c, const pl_bench_sets *sets,
                        const pl_group *group, const pl_site *site, const pl_chooser *chooser,
                        int tag)
{
    *o = (pl_bench_ours){.c = c, .arena = pl_arena_create(), .n_sets = sets->n, .price_s = NAN};
    const pl_collective_call call = pl_bench_call(o->arena, c);

    o->schedule = pl_collective_schedule(&call, chooser, site, c->rank, &o->algo);
    if (chooser->machine != NULL)
        o->price_s = pl_schedule_price_s(o->schedule, c->dtype, chooser->machine, site, c->rank);
    o->scratch =
        pl_alloc((size_t)pl_schedule_scratch_elements(o->schedule) * pl_dtype_bytes(c->dtype));
    o->engine = pl_engine_create(sets->heap);
    o->transfers = pl_alloc((size_t)sets->n * sizeof *o->transfers);
    for (int s = 0; s < sets->n; s++)
        o->transfers[s] =
            pl_engine_prepare(o->engine, o->schedule, group, tag, c->dtype, sets->sets[s],
                              PL_BENCH_ARRAYS, o->scratch, pl_collective_name(c->collective));
}

void pl_bench_ours_close(pl_bench_ours *o)
{
    pl_engine_destroy(o->engine);
    pl_schedule_destroy(o->schedule);
    pl_arena_destroy(o->arena);
    pl_free(o->transfers);
    pl_free(o->scratch);
}

void pl_bench_ours_call(void *data, int64_t number)
{
    const pl_bench_ours *o = data;
    pl_transfer *t = o->transfers[o->n_sets > 1 ? number % o->n_sets : 0];

    pl_engine_start(o->engine, t);
    pl_engine_wait(o->engine, t);
}
