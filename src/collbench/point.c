#include "config.h"

#include "src/collbench/point.h"

#include "src/collbench/limit.h"
#include "src/collbench/ours.h"
#include "src/collbench/overlap.h"
#include "src/collbench/peer.h"
#include "src/base/finish.h"
#include "src/base/panic.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_SETS = 64, MOST_PLACES = 2, MOST_CONTENDERS = MOST_PLACES * (2 + PL_LIMIT_CONTENDERS) };

int pl_bench_n_sets(const pl_bench *b, const pl_bench_case *c)
{
    const int64_t set = (pl_bench_elements(c, PL_BENCH_IN) + pl_bench_elements(c, PL_BENCH_OUT)) *
                        (int64_t)pl_dtype_bytes(c->dtype) * b->fewest_on_host;
    const int64_t n = 4 * b->cache_bytes / set + 1;

    if (!b->options->off_cache)
        return 1;
    return (int)(n < 2 ? 2 : n > MOST_SETS ? MOST_SETS : n);
}

/* In place or not: ours, MPI's, and the limit. */
typedef struct {
    pl_bench_case c;
    pl_bench_ours ours;
    pl_bench_peer peer;
    bool has_peer;
    pl_bench_limit limits[PL_LIMIT_CONTENDERS];
    int n_limits;
    pl_contender us, mpi;
    pl_bench_renewal ours_anew, peer_anew;
    int64_t wrong; /* of ours, all ranks; -1: not checked */
} place;

/* With --fresh every contender's input is written again before each call. */
static void renew_place(place *p, const pl_bench_sets *sets)
{
    p->ours_anew = (pl_bench_renewal){&p->c, sets->n, (const pl_bench_set *)sets->sets};
    p->us.before = pl_bench_renewal_call;
    p->us.before_data = &p->ours_anew;
    if (p->has_peer) {
        p->peer_anew = (pl_bench_renewal){&p->c, sets->n, (const pl_bench_set *)p->peer.arrays};
        p->mpi.before = pl_bench_renewal_call;
        p->mpi.before_data = &p->peer_anew;
    }
    for (int i = 0; i < p->n_limits; i++) {
        p->limits[i].contender.before = pl_bench_renewal_call;
        p->limits[i].contender.before_data = &p->ours_anew;
    }
}

static void open_place(pl_bench *b, place *p, const pl_bench_sets *sets, int tag)
{
    pl_bench_ours_open(&p->ours, &p->c, sets, b->group, &b->site, &b->chooser, tag);
    p->us = (pl_contender){.call = pl_bench_ours_call, .data = &p->ours};
    p->has_peer = b->options->vs_mpi && pl_bench_peer_can(&p->c);
    if (p->has_peer)
        pl_bench_peer_open(&p->peer, &p->c, b->group, sets->n);
    p->mpi = (pl_contender){.call = pl_bench_peer_call, .data = &p->peer};
    p->n_limits = pl_bench_limit_open(p->limits, &p->c, b->group, &b->site, b->heap, b->across,
                                      sets->sets, sets->n);
    p->wrong = b->options->check ? 0 : -1;
    if (b->options->fresh)
        renew_place(p, sets);
}

static void close_place(place *p)
{
    pl_bench_limit_close(p->limits, p->n_limits);
    if (p->has_peer)
        pl_bench_peer_close(&p->peer);
    pl_bench_ours_close(&p->ours);
}

/* Fresh input, then one call on all ranks. */
static void call_afresh(const pl_bench *b, const pl_bench_case *c, const pl_contender *contender,
                        void *const *arrays, int set)
{
    pl_bench_fill(c, arrays);
    pl_mpi_meet(b->world);
    contender->call(contender->data, set);
    pl_mpi_meet(b->world);
}

static void verify_place(const pl_bench *b, place *p, const pl_bench_sets *sets, int set)
{
    const void *const *ours = (const void *const *)sets->sets[set];

    call_afresh(b, &p->c, &p->us, sets->sets[set], set);
    if (b->options->check)
        p->wrong += pl_bench_sum(b->world, pl_bench_count_wrong(&p->c, ours));
    if (!p->has_peer)
        return;
    /* That MPI does the same work is ours to prove. */
    call_afresh(b, &p->c, &p->mpi, p->peer.arrays[set], set);
    pl_bench_peer_settle(&p->peer, set);
    PL_ASSERT(pl_bench_count_wrong(&p->c, (const void *const *)p->peer.arrays[set]) == 0);
}

static void time_places(pl_bench *b, place *places, int n_places)
{
    pl_contender *contenders[MOST_CONTENDERS];
    int n = 0;

    for (int i = 0; i < n_places; i++) {
        contenders[n++] = &places[i].us;
        if (places[i].has_peer)
            contenders[n++] = &places[i].mpi;
        for (int k = 0; k < places[i].n_limits; k++)
            contenders[n++] = &places[i].limits[k].contender;
    }
    pl_contenders_time(&b->clock, contenders, n);
}

static pl_bench_point point_of(pl_bench *b, const place *p)
{
    pl_bench_point point = {.c = p->c,
                            .time_s = p->us.median_s,
                            .min_s = p->us.min_s,
                            .p99_s = p->us.p99_s,
                            .limit_s = pl_bench_limit_s(p->limits, p->n_limits),
                            .mpi_s = p->has_peer ? p->mpi.median_s : NAN,
                            .hidden = NAN,
                            .wrong = p->wrong};

    point.predicted_s = pl_bench_max(b->world, p->ours.price_s) + b->machine.comm_overhead_s;
    snprintf(point.algo, sizeof point.algo, "%s", p->ours.algo);
    return point;
}

int pl_bench_point_measure(pl_bench *b, const pl_bench_case *like, pl_bench_point points[2])
{
    const int n_places = pl_bench_in_place(like->collective) ? MOST_PLACES : 1;
    place places[MOST_PLACES] = {{.c = *like}, {.c = *like}};
    pl_bench_sets sets;

    places[0].c.in_place = false;
    places[1].c.in_place = true;
    pl_bench_sets_open(&sets, &places[0].c, b->heap, pl_bench_n_sets(b, &places[0].c));
    for (int i = 0; i < n_places; i++)
        open_place(b, &places[i], &sets, i);
    pl_mpi_meet(b->world); /* all are prepared */
    for (int set = 1; set < sets.n; set++)
        pl_bench_fill(&places[0].c, sets.sets[set]);
    for (int i = 0; i < n_places; i++)
        verify_place(b, &places[i], &sets, 0);
    time_places(b, places, n_places);
    for (int i = 0; i < n_places; i++) {
        verify_place(b, &places[i], &sets, sets.n - 1);
        points[i] = point_of(b, &places[i]);
    }
    if (b->options->overlap)
        points[0].hidden = pl_bench_overlap(b, &places[0].ours, points[0].time_s);
    pl_mpi_meet(b->world); /* nobody is in a call, or reads what goes now */
    for (int i = 0; i < n_places; i++)
        close_place(&places[i]);
    pl_bench_sets_close(&sets);
    return n_places;
}
