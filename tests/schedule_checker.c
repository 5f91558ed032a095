#include "tests/schedule_checker.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One element of memory, by its place. */
typedef struct {
    int array;
    int64_t offset;
} place;

/* A message under way: one end. */
typedef struct {
    int64_t n;
    place *at; /* [n] */
} end;

typedef struct {
    end *ends;
    int n, n_max, n_done;
} queue;

typedef struct {
    int round, n_rounds, n_open; /* n_open: messages of the current round not through */
    sc_symbol *scratch;
    int64_t n_scratch;
    int *writes, *reads; /* last round + 1 that wrote or read each cell, scratch at the end */
} runner;

typedef struct {
    sc_world *w;
    pl_schedule *const *schedules;
    runner ranks[SC_MAX_RANKS];
    queue sends[SC_MAX_RANKS][SC_MAX_RANKS], recvs[SC_MAX_RANKS][SC_MAX_RANKS]; /* [from][to] */
    char fault[256];
} run;

void sc_world_init(sc_world *w, int n_ranks, int n_arrays, int64_t n_elements)
{
    const int64_t n = n_ranks * n_arrays * n_elements;

    *w = (sc_world){.n_ranks = n_ranks, .n_arrays = n_arrays, .n_elements = n_elements};
    w->cells = malloc((size_t)(n + 1) * sizeof *w->cells);
    for (int64_t i = 0; i < n; i++)
        w->cells[i] = (sc_symbol){.id = SC_NOTHING};
}

void sc_world_free(sc_world *w)
{
    free(w->cells);
}

sc_symbol *sc_cell(const sc_world *w, int rank, int array, int64_t offset)
{
    return &w->cells[(rank * (int64_t)w->n_arrays + array) * w->n_elements + offset];
}

/* The places of a region in order; free it. */
static place *places_of(pl_region region)
{
    place *at = malloc((size_t)(pl_region_elements(region) + 1) * sizeof *at);
    int64_t n = 0;

    for (int i = 0; i < region.n_pieces; i++) {
        const pl_piece p = region.pieces[i];

        for (int64_t c = 0; c < p.count; c++)
            for (int64_t k = 0; k < p.length; k++)
                at[n++] = (place){p.array, p.offset + c * p.stride + k};
    }
    return at;
}

sc_symbol *sc_region_cell(const sc_world *w, int rank, pl_region region, int64_t k)
{
    place *at = places_of(region);
    sc_symbol *cell = sc_cell(w, rank, at[k].array, at[k].offset);

    free(at);
    return cell;
}

/* Well-mixed bits of x. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 31)) * 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9u;
    return x ^ (x >> 32);
}

void sc_region_fill(const sc_world *w, int rank, pl_region region, int64_t first_id)
{
    const int64_t n = pl_region_elements(region);
    place *at = places_of(region);

    for (int64_t k = 0; k < n; k++)
        *sc_cell(w, rank, at[k].array, at[k].offset) = (sc_symbol){
            .id = first_id + k, .terms = (uint64_t)1 << rank, .tree = mix((uint64_t)rank + 1)};
    free(at);
}

__attribute__((format(printf, 2, 3))) static void blame(run *x, const char *format, ...)
{
    va_list args;

    if (x->fault[0])
        return;
    va_start(args, format);
    vsnprintf(x->fault, sizeof x->fault, format, args);
    va_end(args);
}

/* Number of a place among the rank's cells, scratch last; -1 (and blame) outside memory. */
static int64_t index_of(run *x, int rank, place p)
{
    const sc_world *w = x->w;

    if (p.array == PL_SCRATCH && p.offset >= 0 && p.offset < x->ranks[rank].n_scratch)
        return w->n_arrays * w->n_elements + p.offset;
    if (p.array >= 0 && p.array < w->n_arrays && p.offset >= 0 && p.offset < w->n_elements)
        return p.array * w->n_elements + p.offset;
    blame(x, "rank %d touches element %lld of array %d", rank, (long long)p.offset, p.array);
    return -1;
}

static sc_symbol *symbol_at(run *x, int rank, place p)
{
    return p.array == PL_SCRATCH ? &x->ranks[rank].scratch[p.offset]
                                 : sc_cell(x->w, rank, p.array, p.offset);
}

enum use { READ, WRITE, REDUCE };

/* Note what a step does to its places and blame it for disturbing another of the round. */
static void use_places(run *x, int rank, const place *at, int64_t n, enum use use)
{
    runner *k = &x->ranks[rank];
    const int now = k->round + 1;

    for (int64_t i = 0; i < n; i++) {
        const int64_t c = index_of(x, rank, at[i]);

        if (c < 0)
            return;
        if (k->writes[c] == now || (use == WRITE && k->reads[c] == now))
            blame(x, "rank %d, round %d: steps disturb each other", rank, k->round);
        if (use == WRITE)
            k->writes[c] = now;
        if (use == READ)
            k->reads[c] = now;
    }
}

static void post(queue *q, place *at, int64_t n)
{
    if (q->n == q->n_max) {
        q->n_max = q->n_max ? 2 * q->n_max : 4;
        q->ends = realloc(q->ends, (size_t)q->n_max * sizeof *q->ends);
    }
    q->ends[q->n++] = (end){.n = n, .at = at};
}

static void run_copy(run *x, int rank, const pl_step *step)
{
    const int64_t n = pl_region_elements(step->region);
    place *to = places_of(step->region), *from = places_of(step->source);

    if (pl_region_elements(step->source) != n)
        blame(x, "rank %d: a copy between different sizes", rank);
    use_places(x, rank, from, n, READ);
    use_places(x, rank, to, n, WRITE);
    for (int64_t i = 0; i < n && !x->fault[0]; i++)
        *symbol_at(x, rank, to[i]) = *symbol_at(x, rank, from[i]);
    free(to);
    free(from);
}

static void post_step(run *x, int rank, const pl_step *step)
{
    const bool reduces = step->kind == PL_STEP_RECV_REDUCE;
    const pl_region region = reduces ? step->source : step->region;
    const int64_t n = pl_region_elements(region);
    place *at = places_of(region);

    if (step->peer < 0 || step->peer >= x->w->n_ranks || step->peer == rank) {
        blame(x, "rank %d: a message with rank %d", rank, step->peer);
        free(at);
        return;
    }
    if (n == 0)
        blame(x, "rank %d: an empty message", rank);
    use_places(x, rank, at, n, step->kind == PL_STEP_SEND ? READ : WRITE);
    if (step->kind == PL_STEP_SEND)
        post(&x->sends[rank][step->peer], at, n);
    else
        post(&x->recvs[step->peer][rank], at, n);
    x->ranks[rank].n_open++;
}

static void begin_round(run *x, int rank)
{
    runner *k = &x->ranks[rank];
    int n_steps;
    const pl_step *steps;

    if (k->round == k->n_rounds)
        return;
    steps = pl_schedule_round(x->schedules[rank], k->round, &n_steps);
    for (int i = 0; i < n_steps; i++)
        if (steps[i].kind == PL_STEP_COPY)
            run_copy(x, rank, &steps[i]);
    for (int i = 0; i < n_steps; i++)
        if (steps[i].kind != PL_STEP_COPY)
            post_step(x, rank, &steps[i]);
}

static void run_reduction(run *x, int rank, const pl_step *step)
{
    const int64_t n = pl_region_elements(step->region);
    place *to = places_of(step->region), *from = places_of(step->source);

    if (pl_region_elements(step->source) != n)
        blame(x, "rank %d: a reduction between different sizes", rank);
    use_places(x, rank, to, n, REDUCE);
    for (int64_t i = 0; i < n && !x->fault[0]; i++) {
        sc_symbol *a = symbol_at(x, rank, to[i]);
        const sc_symbol b = *symbol_at(x, rank, from[i]);

        if (a->id != b.id || a->id == SC_NOTHING)
            blame(x, "rank %d adds element %lld to %lld", rank, (long long)b.id, (long long)a->id);
        if (a->terms & b.terms)
            blame(x, "rank %d: a term of element %lld is summed twice", rank, (long long)b.id);
        a->terms |= b.terms;
        a->tree = mix(a->tree + b.tree) ^ mix(a->tree * b.tree); /* symmetric */
    }
    free(to);
    free(from);
}

static void end_round(run *x, int rank)
{
    runner *k = &x->ranks[rank];
    int n_steps;
    const pl_step *steps = pl_schedule_round(x->schedules[rank], k->round, &n_steps);

    for (int i = 0; i < n_steps; i++)
        if (steps[i].kind == PL_STEP_RECV_REDUCE)
            run_reduction(x, rank, &steps[i]);
    k->round++;
    begin_round(x, rank);
}

/* Carry the next message from one rank to another if both ends are posted. */
static bool match(run *x, int from, int to)
{
    queue *sends = &x->sends[from][to], *recvs = &x->recvs[from][to];
    const end *s, *r;

    if (sends->n_done == sends->n || recvs->n_done == recvs->n)
        return false;
    s = &sends->ends[sends->n_done++];
    r = &recvs->ends[recvs->n_done++];
    if (s->n != r->n)
        blame(x, "rank %d sends %lld elements, rank %d awaits %lld", from, (long long)s->n, to,
              (long long)r->n);
    for (int64_t i = 0; i < s->n && !x->fault[0]; i++)
        *symbol_at(x, to, r->at[i]) = *symbol_at(x, from, s->at[i]);
    x->ranks[from].n_open--;
    x->ranks[to].n_open--;
    return true;
}

static void runner_init(run *x, int rank)
{
    runner *k = &x->ranks[rank];
    const int64_t n_scratch = pl_schedule_scratch_elements(x->schedules[rank]);
    const int64_t n_cells = x->w->n_arrays * x->w->n_elements + n_scratch;

    k->n_rounds = pl_schedule_n_rounds(x->schedules[rank]);
    k->n_scratch = n_scratch;
    k->scratch = calloc((size_t)n_scratch + 1, sizeof *k->scratch);
    k->writes = calloc((size_t)n_cells + 1, sizeof *k->writes);
    k->reads = calloc((size_t)n_cells + 1, sizeof *k->reads);
    begin_round(x, rank);
}

static void queue_free(queue *q)
{
    for (int i = 0; i < q->n; i++)
        free(q->ends[i].at);
    free(q->ends);
}

static void run_free(run *x)
{
    for (int r = 0; r < x->w->n_ranks; r++) {
        free(x->ranks[r].scratch);
        free(x->ranks[r].writes);
        free(x->ranks[r].reads);
        for (int p = 0; p < x->w->n_ranks; p++) {
            queue_free(&x->sends[r][p]);
            queue_free(&x->recvs[r][p]);
        }
    }
    free(x);
}

/* One sweep over all pairs and ranks: whether anything moved. */
static bool sweep(run *x)
{
    const int P = x->w->n_ranks;
    bool moved = false;

    for (int from = 0; from < P; from++)
        for (int to = 0; to < P; to++)
            while (!x->fault[0] && match(x, from, to))
                moved = true;
    for (int r = 0; r < P && !x->fault[0]; r++) {
        if (x->ranks[r].round < x->ranks[r].n_rounds && x->ranks[r].n_open == 0) {
            end_round(x, r);
            moved = true;
        }
    }
    return moved && !x->fault[0];
}

const char *sc_run(sc_world *w, pl_schedule *const *schedules)
{
    static char fault[256];
    run *x = calloc(1, sizeof *x);

    x->w = w;
    x->schedules = schedules;
    for (int r = 0; r < w->n_ranks; r++)
        runner_init(x, r);
    while (sweep(x))
        ;
    for (int r = 0; r < w->n_ranks; r++)
        if (x->ranks[r].round < x->ranks[r].n_rounds)
            blame(x, "deadlock: rank %d waits in round %d", r, x->ranks[r].round);
    memcpy(fault, x->fault, sizeof fault);
    run_free(x);
    return fault[0] ? fault : NULL;
}
