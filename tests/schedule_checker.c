#include "tests/schedule_checker.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Elements of memory, by the numbers of their cells. */
typedef struct {
    int64_t n;
    int64_t *cell; /* [n] */
} span;

/* One end of a message under way. */
typedef struct {
    span at;
    int run;
} end;

typedef struct {
    end *ends;
    int n, n_max, n_done;
} queue;

/* Who touched a cell last, by the ranks' own clocks. */
typedef struct {
    int writer, written_at; /* written_at 0: nobody did */
    uint64_t readers;       /* since then; when is in read_at */
    bool is_secret;         /* written by a move into own memory that was not to be published */
} touch;

typedef struct {
    int run, round, n_rounds; /* run > SC_RUNS: finished */
    bool flies;               /* the round has begun */
    int n_open;               /* its messages not through */
    int *clock;               /* [n_ranks] what has happened before now; own: step by step */
    int *posted;              /* [n_ranks] the clock when the round's messages were posted */
    int *arrived;             /* [n_ranks] what happened before the messages that came */
    int *signals;             /* [SC_RUNS + 1][n_stages + 2][n_ranks] clock of each; last: end */
    int stage, n_stages;
    int round_at, messages_at, combines_at, reductions_at; /* clocks when these began */
    int64_t n_staging, n_scratch;
} runner;

typedef struct {
    sc_world *w;
    const sc_callers *callers;
    runner ranks[SC_MAX_RANKS];
    queue *sends, *recvs; /* [n_ranks: from][n_ranks: to] */
    touch *touches;       /* [all cells] */
    int *read_at;         /* [all cells][n_ranks], where `readers` says so */
    char fault[320];
} run;

enum { NOT_YET = 1 << 30 };

static queue *queue_of(const run *x, queue *queues, int from, int to)
{
    return &queues[from * x->w->n_ranks + to];
}

void sc_world_init(sc_world *w, int n_ranks, int n_arrays, int64_t n_elements, int64_t grain,
                   pl_schedule *const *schedules)
{
    int64_t most = 0;

    for (int r = 0; r < n_ranks; r++) {
        const int64_t n = 2 * pl_schedule_staging_elements(schedules[r]) / grain +
                          pl_schedule_scratch_elements(schedules[r]) / grain;

        most = n > most ? n : most;
    }
    *w = (sc_world){.n_ranks = n_ranks,
                    .n_arrays = n_arrays,
                    .n_elements = n_elements,
                    .schedules = schedules,
                    .grain = grain,
                    .stride = n_arrays * n_elements + most};
    w->cells = malloc((size_t)(n_ranks * w->stride + 1) * sizeof *w->cells);
    for (int64_t i = 0; i < n_ranks * w->stride; i++)
        w->cells[i] = (sc_symbol){.id = SC_NOTHING};
}

void sc_world_free(sc_world *w)
{
    free(w->cells);
}

static int64_t number_of(const sc_world *w, int rank, int array, int64_t offset)
{
    return rank * w->stride + array * w->n_elements + offset;
}

sc_symbol *sc_cell(const sc_world *w, int rank, int array, int64_t offset)
{
    return &w->cells[number_of(w, rank, array, offset)];
}

sc_symbol *sc_region_cell(const sc_world *w, int rank, pl_region region, int64_t k)
{
    int i = 0;
    pl_piece p;

    while (k >= region.pieces[i].count * region.pieces[i].length) {
        k -= region.pieces[i].count * region.pieces[i].length;
        i++;
    }
    p = region.pieces[i];
    return sc_cell(w, rank, p.array, p.offset + k / p.length * p.stride + k % p.length);
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
    for (int i = 0; i < region.n_pieces; i++) {
        const pl_piece p = region.pieces[i];

        for (int64_t c = 0; c < p.count; c++)
            for (int64_t k = 0; k < p.length; k++)
                *sc_cell(w, rank, p.array, p.offset + c * p.stride + k) =
                    (sc_symbol){.id = first_id++,
                                .terms = (uint64_t)1 << rank,
                                .tree = mix((uint64_t)rank + 1)};
    }
}

/* The first fault is the one that counts. */
__attribute__((format(printf, 3, 4))) static void blame(run *x, int rank, const char *format, ...)
{
    const runner *k = &x->ranks[rank];
    va_list args;
    int n;

    if (x->fault[0])
        return;
    n = snprintf(x->fault, sizeof x->fault, "rank %d, run %d, round %d: ", rank, k->run, k->round);
    va_start(args, format);
    vsnprintf(x->fault + n, sizeof x->fault - (size_t)n, format, args);
    va_end(args);
}

/* The cell of an element as `rank` sees it; -1 and blame where there is none. */
static int64_t locate(run *x, int rank, int owner, int array, int64_t offset)
{
    const sc_world *w = x->w;
    const runner *o = &x->ranks[owner];
    const int64_t staging = number_of(w, owner, w->n_arrays, 0);

    if (array >= 0 && array < w->n_arrays && offset >= 0 && offset < w->n_elements)
        return number_of(w, owner, array, offset);
    if (array == PL_STAGING && offset >= 0 && offset < o->n_staging)
        return staging + x->ranks[rank].run % 2 * o->n_staging + offset;
    if (array == PL_SCRATCH && owner == rank && offset >= 0 && offset < o->n_scratch)
        return staging + 2 * o->n_staging + offset;
    blame(x, rank, "outside of memory: element %lld of rank %d's array %d", (long long)offset,
          owner, array);
    return -1;
}

/* A piece in cells; blame where it cuts one. */
static pl_piece in_cells(run *x, int rank, pl_piece p)
{
    const int64_t grain = x->w->grain;

    if (p.offset % grain != 0 || p.length % grain != 0 || (p.count > 1 && p.stride % grain != 0))
        blame(x, rank, "cuts a grain of %lld elements: %lld at %lld", (long long)grain,
              (long long)p.length, (long long)p.offset);
    p.offset /= grain;
    p.length /= grain;
    p.stride /= grain;
    return p;
}

/* The cells of a region in order; free them. None, after blame. */
static span span_of(run *x, int rank, int owner, pl_region region)
{
    const int64_t n = pl_region_elements(region) / x->w->grain;
    span s = {.n = 0, .cell = malloc((size_t)(n + 1) * sizeof *s.cell)};

    for (int i = 0; i < region.n_pieces && !x->fault[0]; i++) {
        const pl_piece p = in_cells(x, rank, region.pieces[i]);

        for (int64_t c = 0; c < p.count && !x->fault[0]; c++)
            for (int64_t k = 0; k < p.length; k++)
                s.cell[s.n++] = locate(x, rank, owner, p.array, p.offset + c * p.stride + k);
    }
    if (x->fault[0])
        s.n = 0;
    return s;
}

/* "element 3 of rank 1's array 0" for messages. */
static const char *cell_name(const run *x, int64_t c)
{
    static char name[96];
    const sc_world *w = x->w;
    const int owner = (int)(c / w->stride);
    const int64_t at = c % w->stride, n_arrays = w->n_arrays * w->n_elements;
    const int64_t n_staging = x->ranks[owner].n_staging;

    if (at < n_arrays)
        snprintf(name, sizeof name, "element %lld of rank %d's array %lld",
                 (long long)(at % w->n_elements), owner, (long long)(at / w->n_elements));
    else if (at < n_arrays + 2 * n_staging)
        snprintf(name, sizeof name, "element %lld of rank %d's staging, half %lld",
                 (long long)((at - n_arrays) % n_staging), owner,
                 (long long)((at - n_arrays) / n_staging));
    else
        snprintf(name, sizeof name, "element %lld of rank %d's scratch",
                 (long long)(at - n_arrays - 2 * n_staging), owner);
    return name;
}

/* A new moment on the rank's own clock. */
static int tick(run *x, int rank)
{
    return ++x->ranks[rank].clock[rank];
}

static void clock_join(const run *x, int *clock, const int *other)
{
    for (int r = 0; r < x->w->n_ranks; r++)
        clock[r] = other[r] > clock[r] ? other[r] : clock[r];
}

static int *read_at(const run *x, int64_t c, int rank)
{
    return &x->read_at[c * x->w->n_ranks + rank];
}

/* Blame for a write by another rank that need not have happened before. */
static void meet_writer(run *x, int rank, int64_t c, const char *does)
{
    const touch *t = &x->touches[c];

    if (t->written_at > x->ranks[rank].clock[t->writer])
        blame(x, rank, "race: %s %s, which rank %d may be writing", does, cell_name(x, c),
              t->writer);
}

static void note_read(run *x, int rank, int64_t c)
{
    meet_writer(x, rank, c, "reads");
    if (x->touches[c].is_secret && x->touches[c].writer != rank)
        blame(x, rank, "reads %s, which was written unpublished", cell_name(x, c));
    x->touches[c].readers |= (uint64_t)1 << rank;
    *read_at(x, c, rank) = x->ranks[rank].clock[rank];
}

static void note_write(run *x, int rank, int64_t c, const char *does)
{
    const runner *k = &x->ranks[rank];
    touch *t = &x->touches[c];

    meet_writer(x, rank, c, does);
    for (uint64_t left = t->readers; left; left &= left - 1) {
        const int reader = __builtin_ctzll(left);

        if (*read_at(x, c, reader) > k->clock[reader])
            blame(x, rank, "race: %s %s, which rank %d may be reading", does, cell_name(x, c),
                  reader);
    }
    *t = (touch){.writer = rank, .written_at = k->clock[rank]};
}

/* When the rank itself wrote or read a cell last, if it did since `since`; 0 otherwise. */
static int own_write(const run *x, int rank, int64_t c, int since)
{
    const touch *t = &x->touches[c];

    return t->writer == rank && t->written_at >= since ? t->written_at : 0;
}

static int own_read(const run *x, int rank, int64_t c, int since)
{
    const bool reads = x->touches[c].readers >> rank & 1;

    return reads && *read_at(x, c, rank) >= since ? *read_at(x, c, rank) : 0;
}

static void blame_disturbance(run *x, int rank, int64_t c)
{
    blame(x, rank, "steps disturb each other: %s", cell_name(x, c));
}

/* A step reads: what copies of the round wrote, but not what other steps of it write. */
static void step_reads(run *x, int rank, span s)
{
    for (int64_t i = 0; i < s.n && !x->fault[0]; i++) {
        if (own_write(x, rank, s.cell[i], x->ranks[rank].messages_at))
            blame_disturbance(x, rank, s.cell[i]);
        note_read(x, rank, s.cell[i]);
    }
}

/* A step will write: nothing that the round has read or written. */
static void step_may_write(run *x, int rank, span s)
{
    const int since = x->ranks[rank].round_at;

    for (int64_t i = 0; i < s.n && !x->fault[0]; i++)
        if (own_write(x, rank, s.cell[i], since) || own_read(x, rank, s.cell[i], since))
            blame_disturbance(x, rank, s.cell[i]);
}

static void step_writes(run *x, int rank, span s)
{
    for (int64_t i = 0; i < s.n && !x->fault[0]; i++)
        note_write(x, rank, s.cell[i], "writes");
}

/* After a move wrote its own rank's memory. Staging need not be told. */
static void keep_secret(run *x, int rank, const pl_step *step, span s, pl_region region)
{
    const bool is_staging = region.n_pieces > 0 && region.pieces[0].array == PL_STAGING;

    for (int64_t i = 0; i < s.n && !x->fault[0]; i++)
        if (s.cell[i] / x->w->stride == rank)
            x->touches[s.cell[i]].is_secret = !step->is_published && !is_staging;
}

static void run_copy(run *x, int rank, const pl_step *step)
{
    const span to = span_of(x, rank, rank, step->region);
    const span from = span_of(x, rank, rank, step->source);

    tick(x, rank);
    if (to.n != from.n)
        blame(x, rank, "a copy of %lld elements to %lld", (long long)from.n, (long long)to.n);
    step_reads(x, rank, from);
    step_may_write(x, rank, to);
    step_writes(x, rank, to);
    keep_secret(x, rank, step, to, step->region);
    for (int64_t i = 0; i < to.n && !x->fault[0]; i++)
        x->w->cells[to.cell[i]] = x->w->cells[from.cell[i]];
    free(to.cell);
    free(from.cell);
}

static void post(queue *q, end e)
{
    if (q->n == q->n_max) {
        q->n_max = q->n_max ? 2 * q->n_max : 4;
        q->ends = realloc(q->ends, (size_t)q->n_max * sizeof *q->ends);
    }
    q->ends[q->n++] = e;
}

static bool is_message(const pl_step *step)
{
    return step->kind == PL_STEP_SEND || step->kind == PL_STEP_RECV ||
           step->kind == PL_STEP_RECV_REDUCE;
}

static void post_message(run *x, int rank, const pl_step *step)
{
    const bool reduces = step->kind == PL_STEP_RECV_REDUCE;
    const span at = span_of(x, rank, rank, reduces ? step->source : step->region);
    const end e = {.at = at, .run = x->ranks[rank].run};

    tick(x, rank);
    if (at.n == 0)
        blame(x, rank, "a message without elements");
    if (step->kind == PL_STEP_SEND) {
        step_reads(x, rank, at);
        post(queue_of(x, x->sends, rank, step->peer), e);
    } else {
        step_may_write(x, rank, at);
        step_writes(x, rank, at);
        post(queue_of(x, x->recvs, step->peer, rank), e);
    }
    x->ranks[rank].n_open++;
}

/* The sum of two symbols, whichever comes first; not rounded yet. */
static sc_symbol add(run *x, int rank, sc_symbol a, sc_symbol b, pl_reduction reduction)
{
    if (a.id != b.id || a.id == SC_NOTHING)
        blame(x, rank, "adds element %lld to %lld", (long long)b.id, (long long)a.id);
    if (a.terms & b.terms)
        blame(x, rank, "a term of element %lld is summed twice", (long long)b.id);
    if (reduction != x->w->reduction)
        blame(x, rank, "another operation than asked for");
    a.terms |= b.terms;
    a.tree = mix(a.tree + b.tree) ^ mix(a.tree * b.tree);
    return a;
}

static uint64_t round_tree(uint64_t tree)
{
    return mix(tree + 0x5bd1e995u);
}

/* Left to right, rounded once. */
static sc_symbol fold(run *x, int rank, const pl_step *step, const span *from, int64_t k)
{
    sc_symbol sum = x->w->cells[from[0].cell[k]];

    for (int j = 1; j < step->n_from; j++)
        sum = add(x, rank, sum, x->w->cells[from[j].cell[k]], step->reduction);
    if (step->n_from > 1)
        sum.tree = round_tree(sum.tree);
    return sum;
}

/* One `to` of a combination: element k may only be one of the sources' element k. */
static void write_combined(run *x, int rank, span to, const span *from, int n_from)
{
    const int now = x->ranks[rank].clock[rank];

    for (int64_t k = 0; k < to.n && !x->fault[0]; k++) {
        const int64_t c = to.cell[k];
        bool is_source = false;

        for (int j = 0; j < n_from; j++)
            is_source |= from[j].cell[k] == c;
        if ((own_read(x, rank, c, now) && !is_source) || own_write(x, rank, c, now))
            blame_disturbance(x, rank, c);
        note_write(x, rank, c, "writes");
    }
}

static int owner_of(const pl_place *place, int rank)
{
    return place->rank == PL_SELF ? rank : place->rank;
}

static void run_combine(run *x, int rank, const pl_step *step)
{
    span *to = calloc((size_t)step->n_to, sizeof *to);
    span *from = calloc((size_t)step->n_from, sizeof *from);

    tick(x, rank);
    for (int i = 0; i < step->n_to; i++)
        to[i] = span_of(x, rank, owner_of(&step->to[i], rank), step->to[i].region);
    for (int j = 0; j < step->n_from; j++)
        from[j] = span_of(x, rank, owner_of(&step->from[j], rank), step->from[j].region);
    for (int i = 0; i < step->n_to; i++)
        for (int j = 0; j < step->n_from; j++)
            if (to[i].n != from[j].n)
                blame(x, rank, "%lld elements combined to %lld", (long long)from[j].n,
                      (long long)to[i].n);
    for (int i = 0; i < step->n_to; i++)
        step_may_write(x, rank, to[i]);
    for (int j = 0; j < step->n_from; j++)
        step_reads(x, rank, from[j]);
    for (int i = 0; i < step->n_to; i++) {
        write_combined(x, rank, to[i], from, step->n_from);
        keep_secret(x, rank, step, to[i], step->to[i].region);
    }
    for (int64_t k = 0; k < to[0].n && !x->fault[0]; k++) {
        const sc_symbol sum = fold(x, rank, step, from, k);

        for (int i = 0; i < step->n_to; i++)
            x->w->cells[to[i].cell[k]] = sum;
    }
    for (int i = 0; i < step->n_to; i++)
        free(to[i].cell);
    for (int j = 0; j < step->n_from; j++)
        free(from[j].cell);
    free(to);
    free(from);
}

/* After the round's messages. May write what the round copied, sent, or reduced before. */
static void run_reduction(run *x, int rank, const pl_step *step)
{
    const runner *k = &x->ranks[rank];
    const span to = span_of(x, rank, rank, step->region);
    const span from = span_of(x, rank, rank, step->source);

    tick(x, rank);
    if (to.n != from.n)
        blame(x, rank, "%lld elements reduced into %lld", (long long)from.n, (long long)to.n);
    for (int64_t i = 0; i < to.n && !x->fault[0]; i++) {
        const int64_t c = to.cell[i];
        const int written = own_write(x, rank, c, k->messages_at);
        const int read = own_read(x, rank, c, k->round_at);
        sc_symbol *sum = &x->w->cells[c];

        if ((written && written < k->reductions_at) ||
            (read && (read < k->messages_at || read >= k->combines_at)))
            blame_disturbance(x, rank, c);
        note_write(x, rank, c, "writes");
        *sum = add(x, rank, *sum, x->w->cells[from.cell[i]], step->reduction);
        sum->tree = round_tree(sum->tree);
    }
    free(to.cell);
    free(from.cell);
}

/* Where the clock of a signal is kept. */
static int *signal_clock(const run *x, int rank, int of_run, int stage)
{
    const runner *k = &x->ranks[rank];
    const int s = stage == PL_STAGE_END ? k->n_stages + 1 : stage;

    return k->signals + (int64_t)(of_run * (k->n_stages + 2) + s) * x->w->n_ranks;
}

static void run_signal(run *x, int rank, int stage)
{
    const runner *k = &x->ranks[rank];

    memcpy(signal_clock(x, rank, k->run, stage), k->clock,
           (size_t)x->w->n_ranks * sizeof *k->clock);
}

/* The clock of the signal awaited; NULL if it has not come. Before the first run all was quiet. */
static const int *awaited(const run *x, int rank, const pl_step *step)
{
    const int of_run = x->ranks[rank].run - step->lag;
    const int *clock =
        of_run < 1 ? x->ranks[rank].clock : signal_clock(x, step->peer, of_run, step->stage);

    return of_run < 1 || clock[step->peer] > 0 ? clock : NULL;
}

/* The caller's turn: it reads and overwrites all arrays. */
static void call(run *x, int rank)
{
    const sc_world *w = x->w;
    const int64_t first = number_of(w, rank, 0, 0), n = w->n_arrays * w->n_elements;
    runner *k = &x->ranks[rank];
    int64_t n_wrong = 0;

    tick(x, rank);
    for (int64_t i = 0; i < n && !x->fault[0]; i++)
        note_write(x, rank, first + i, "its caller uses");
    if (k->run > 0 && x->callers->count_wrong && !x->fault[0])
        n_wrong = x->callers->count_wrong(w, rank, k->run, x->callers->context);
    if (n_wrong > 0)
        blame(x, rank, "wrong result in %lld elements", (long long)n_wrong);
    for (int64_t i = 0; i < n; i++)
        w->cells[first + i] = (sc_symbol){.id = SC_NOTHING};
    k->run++;
    k->round = 0;
    k->stage = 0;
    if (k->run <= SC_RUNS)
        x->callers->fill(w, rank, k->run, x->callers->context);
}

/* Whether the round could begin: all that it awaits has been signalled. */
static bool begin_round(run *x, int rank)
{
    runner *k = &x->ranks[rank];
    int n_steps;
    const pl_step *steps = pl_schedule_round(x->w->schedules[rank], k->round, &n_steps);

    for (int i = 0; i < n_steps; i++)
        if (steps[i].kind == PL_STEP_AWAIT && !awaited(x, rank, &steps[i]))
            return false;
    for (int i = 0; i < n_steps; i++)
        if (steps[i].kind == PL_STEP_AWAIT)
            clock_join(x, k->clock, awaited(x, rank, &steps[i]));
    k->flies = true;
    k->round_at = k->clock[rank] + 1;
    k->messages_at = k->combines_at = k->reductions_at = NOT_YET;
    for (int i = 0; i < n_steps && !x->fault[0]; i++)
        if (steps[i].kind == PL_STEP_COPY)
            run_copy(x, rank, &steps[i]);
    memcpy(k->posted, k->clock, (size_t)x->w->n_ranks * sizeof *k->clock);
    memset(k->arrived, 0, (size_t)x->w->n_ranks * sizeof *k->arrived);
    k->messages_at = k->clock[rank] + 1;
    for (int i = 0; i < n_steps && !x->fault[0]; i++)
        if (is_message(&steps[i]))
            post_message(x, rank, &steps[i]);
    k->combines_at = k->clock[rank] + 1;
    for (int i = 0; i < n_steps && !x->fault[0]; i++)
        if (steps[i].kind == PL_STEP_COMBINE)
            run_combine(x, rank, &steps[i]);
    k->reductions_at = k->clock[rank] + 1;
    return true;
}

static void end_round(run *x, int rank)
{
    runner *k = &x->ranks[rank];
    int n_steps;
    const pl_step *steps = pl_schedule_round(x->w->schedules[rank], k->round, &n_steps);

    clock_join(x, k->clock, k->arrived);
    for (int i = 0; i < n_steps && !x->fault[0]; i++)
        if (steps[i].kind == PL_STEP_RECV_REDUCE)
            run_reduction(x, rank, &steps[i]);
    for (int i = 0; i < n_steps; i++)
        if (steps[i].kind == PL_STEP_SIGNAL)
            run_signal(x, rank, ++k->stage);
    k->flies = false;
    k->round++;
}

/* Carry what can be carried from one rank to another: both ends are posted. */
static void carry(run *x, int from, int to)
{
    queue *sends = queue_of(x, x->sends, from, to), *recvs = queue_of(x, x->recvs, from, to);

    while (sends->n_done < sends->n && recvs->n_done < recvs->n && !x->fault[0]) {
        const end *s = &sends->ends[sends->n_done++], *r = &recvs->ends[recvs->n_done++];

        if (s->run != r->run)
            blame(x, to, "a message from rank %d is left over from run %d", from, s->run);
        if (s->at.n != r->at.n)
            blame(x, to, "awaits %lld elements from rank %d, which sends %lld", (long long)r->at.n,
                  from, (long long)s->at.n);
        for (int64_t i = 0; i < s->at.n && !x->fault[0]; i++)
            x->w->cells[r->at.cell[i]] = x->w->cells[s->at.cell[i]];
        clock_join(x, x->ranks[to].arrived, x->ranks[from].posted);
        x->ranks[from].n_open--;
        x->ranks[to].n_open--;
    }
}

static void carry_round(run *x, int rank)
{
    int n_steps;
    const pl_step *steps = pl_schedule_round(x->w->schedules[rank], x->ranks[rank].round, &n_steps);

    for (int i = 0; i < n_steps; i++) {
        if (!is_message(&steps[i]))
            continue;
        if (steps[i].kind == PL_STEP_SEND)
            carry(x, rank, steps[i].peer);
        else
            carry(x, steps[i].peer, rank);
    }
}

/* Go on by up to one round; whether the rank did anything that lets it or others go on. */
static bool advance(run *x, int rank)
{
    runner *k = &x->ranks[rank];

    if (k->run > SC_RUNS)
        return false;
    if (k->round == k->n_rounds) {
        run_signal(x, rank, PL_STAGE_END);
        call(x, rank);
        return true;
    }
    if (k->flies && k->n_open > 0)
        return false;
    if (!k->flies) {
        if (!begin_round(x, rank))
            return false;
        if (!x->fault[0])
            carry_round(x, rank);
    }
    if (k->n_open == 0 && !x->fault[0])
        end_round(x, rank);
    return true;
}

static void run_in_turn(run *x)
{
    bool moves = true;

    while (moves && !x->fault[0]) {
        moves = false;
        for (int r = 0; r < x->w->n_ranks && !x->fault[0]; r++)
            moves |= advance(x, r);
    }
}

static void run_by_priority(run *x, bool high_first)
{
    const int P = x->w->n_ranks;
    int i = 0;

    while (i < P && !x->fault[0])
        i = advance(x, high_first ? P - 1 - i : i) ? 0 : i + 1;
}

static bool names(const pl_place *places, int n, int rank)
{
    for (int i = 0; i < n; i++)
        if (places[i].rank == rank)
            return true;
    return false;
}

/* What a rank has to do with a peer through memory. */
typedef struct {
    bool awaits, touches;
} relation;

static relation relation_to(const sc_world *w, int rank, int peer)
{
    relation to = {false, false};

    for (int r = 0; r < pl_schedule_n_rounds(w->schedules[rank]); r++) {
        int n_steps;
        const pl_step *steps = pl_schedule_round(w->schedules[rank], r, &n_steps);

        for (int i = 0; i < n_steps; i++) {
            to.awaits |= steps[i].kind == PL_STEP_AWAIT && steps[i].peer == peer;
            to.touches |= names(steps[i].to, steps[i].n_to, peer) ||
                          names(steps[i].from, steps[i].n_from, peer);
        }
    }
    return to;
}

/* Partners find each other's memory through their awaits, which therefore go both ways. */
static void check_partners(run *x, int rank)
{
    const pl_site *site = x->w->site;

    for (int p = 0; p < x->w->n_ranks; p++) {
        const relation to = relation_to(x->w, rank, p);

        if (p == rank || (!to.awaits && !to.touches))
            continue;
        if (!to.awaits || !relation_to(x->w, p, rank).awaits)
            blame(x, rank, "is a partner of rank %d, but they don't both await the other", p);
        if (x->ranks[rank].n_staging != x->ranks[p].n_staging)
            blame(x, rank, "other staging than rank %d", p);
        if (site && (!site->shared || site->host[rank] != site->host[p]))
            blame(x, rank, "rank %d is out of reach", p);
    }
}

static bool is_peer(const run *x, int rank, int peer)
{
    return peer >= 0 && peer < x->w->n_ranks && peer != rank;
}

static void check_places(run *x, int rank, const pl_place *places, int n)
{
    for (int i = 0; i < n; i++)
        if (places[i].rank != PL_SELF && !is_peer(x, rank, places[i].rank))
            blame(x, rank, "takes itself, or nobody, for a peer: %d", places[i].rank);
}

static void check_step(run *x, int rank, const pl_step *step)
{
    const bool awaits = step->kind == PL_STEP_AWAIT;

    if ((awaits || is_message(step)) && !is_peer(x, rank, step->peer))
        blame(x, rank, "takes itself, or nobody, for a peer: %d", step->peer);
    else if (awaits && step->stage != PL_STAGE_END && step->stage > x->ranks[step->peer].n_stages)
        blame(x, rank, "rank %d never signals stage %d", step->peer, step->stage);
    check_places(x, rank, step->to, step->n_to);
    check_places(x, rank, step->from, step->n_from);
}

static void check_steps(run *x, int rank)
{
    for (int r = 0; r < pl_schedule_n_rounds(x->w->schedules[rank]); r++) {
        int n_steps;
        const pl_step *steps = pl_schedule_round(x->w->schedules[rank], r, &n_steps);

        for (int i = 0; i < n_steps; i++)
            check_step(x, rank, &steps[i]);
    }
}

static void runner_init(run *x, int rank)
{
    const pl_schedule *s = x->w->schedules[rank];
    const size_t P = (size_t)x->w->n_ranks;
    runner *k = &x->ranks[rank];

    k->n_rounds = pl_schedule_n_rounds(s);
    k->n_stages = pl_schedule_stage(s);
    k->n_staging = pl_schedule_staging_elements(s) / x->w->grain;
    k->n_scratch = pl_schedule_scratch_elements(s) / x->w->grain;
    k->clock = calloc(P, sizeof *k->clock);
    k->posted = calloc(P, sizeof *k->posted);
    k->arrived = calloc(P, sizeof *k->arrived);
    k->signals = calloc((SC_RUNS + 1) * (size_t)(k->n_stages + 2) * P, sizeof *k->signals);
}

static void queue_free(queue *q)
{
    for (int i = 0; i < q->n; i++)
        free(q->ends[i].at.cell);
    free(q->ends);
}

static void run_free(run *x)
{
    for (int r = 0; r < x->w->n_ranks; r++) {
        free(x->ranks[r].clock);
        free(x->ranks[r].posted);
        free(x->ranks[r].arrived);
        free(x->ranks[r].signals);
    }
    for (int i = 0; i < x->w->n_ranks * x->w->n_ranks; i++) {
        queue_free(&x->sends[i]);
        queue_free(&x->recvs[i]);
    }
    free(x->sends);
    free(x->recvs);
    free(x->touches);
    free(x->read_at);
    free(x);
}

/* Blame for the first rank that has not come through. */
static void check_end(run *x)
{
    for (int r = 0; r < x->w->n_ranks; r++)
        if (x->ranks[r].run <= SC_RUNS)
            blame(x, r, "deadlock: waits for ever");
}

const char *sc_run(sc_world *w, const sc_callers *callers, sc_order order)
{
    static char fault[sizeof((run *)0)->fault];
    const size_t n_cells = (size_t)(w->n_ranks * w->stride) + 1;
    run *x = calloc(1, sizeof *x);

    x->w = w;
    x->callers = callers;
    x->sends = calloc((size_t)(w->n_ranks * w->n_ranks), sizeof *x->sends);
    x->recvs = calloc((size_t)(w->n_ranks * w->n_ranks), sizeof *x->recvs);
    x->touches = calloc(n_cells, sizeof *x->touches);
    x->read_at = malloc(n_cells * (size_t)w->n_ranks * sizeof *x->read_at);
    for (int r = 0; r < w->n_ranks; r++)
        runner_init(x, r);
    for (int r = 0; r < w->n_ranks; r++)
        check_steps(x, r);
    for (int r = 0; r < w->n_ranks; r++)
        if (pl_schedule_shares(w->schedules[r]))
            check_partners(x, r);
    for (int r = 0; r < w->n_ranks && !x->fault[0]; r++)
        call(x, r);
    if (order == SC_IN_TURN)
        run_in_turn(x);
    else
        run_by_priority(x, order == SC_HIGH_FIRST);
    check_end(x);
    memcpy(fault, x->fault, sizeof fault);
    run_free(x);
    return fault[0] ? fault : NULL;
}
