#include "tests/schedule_checker_run.h"

#include <stdlib.h>
#include <string.h>

/* Well-mixed bits of x. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 31)) * 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9u;
    return x ^ (x >> 32);
}

uint64_t sc_tree_of_term(int rank)
{
    return mix((uint64_t)rank + 1);
}

static sc_queue *queue_of(const sc_checker *x, sc_queue *queues, int from, int to)
{
    return &queues[from * x->w->n_ranks + to];
}

void sc_copy(sc_checker *x, int rank, const pl_step *step)
{
    const sc_span to = sc_span_of(x, rank, rank, step->region);
    const sc_span from = sc_span_of(x, rank, rank, step->source);

    sc_tick(x, rank);
    if (to.n != from.n)
        sc_blame(x, rank, "a copy of %lld elements to %lld", (long long)from.n, (long long)to.n);
    sc_step_reads(x, rank, from);
    sc_step_may_write(x, rank, to);
    sc_step_writes(x, rank, to);
    sc_keep_secret(x, rank, step, to, step->region);
    for (int64_t i = 0; i < to.n && !x->fault[0]; i++)
        x->w->cells[to.cell[i]] = x->w->cells[from.cell[i]];
    free(to.cell);
    free(from.cell);
}

static void post(sc_queue *q, sc_end e)
{
    if (q->n == q->n_max) {
        q->n_max = q->n_max ? 2 * q->n_max : 4;
        q->ends = realloc(q->ends, (size_t)q->n_max * sizeof *q->ends);
    }
    q->ends[q->n++] = e;
}

bool sc_is_message(const pl_step *step)
{
    return step->kind == PL_STEP_SEND || step->kind == PL_STEP_RECV ||
           step->kind == PL_STEP_RECV_REDUCE;
}

void sc_post_message(sc_checker *x, int rank, const pl_step *step)
{
    const bool reduces = step->kind == PL_STEP_RECV_REDUCE;
    const sc_span at = sc_span_of(x, rank, rank, reduces ? step->source : step->region);
    const sc_end e = {.at = at, .run = x->ranks[rank].run};

    sc_tick(x, rank);
    if (at.n == 0)
        sc_blame(x, rank, "a message without elements");
    if (step->kind == PL_STEP_SEND) {
        sc_step_reads(x, rank, at);
        post(queue_of(x, x->sends, rank, step->peer), e);
    } else {
        sc_step_may_write(x, rank, at);
        sc_step_writes(x, rank, at);
        post(queue_of(x, x->recvs, step->peer, rank), e);
    }
    x->ranks[rank].n_open++;
}

/* The sum of two symbols, whichever comes first; not rounded yet. */
static sc_symbol add(sc_checker *x, int rank, sc_symbol a, sc_symbol b, pl_reduction reduction)
{
    if (a.id != b.id || a.id == SC_NOTHING)
        sc_blame(x, rank, "adds element %lld to %lld", (long long)b.id, (long long)a.id);
    if (a.terms & b.terms)
        sc_blame(x, rank, "a term of element %lld is summed twice", (long long)b.id);
    if (reduction != x->w->reduction)
        sc_blame(x, rank, "another operation than asked for");
    a.terms |= b.terms;
    a.tree = mix(a.tree + b.tree) ^ mix(a.tree * b.tree);
    return a;
}

static uint64_t round_tree(uint64_t tree)
{
    return mix(tree + 0x5bd1e995u);
}

/* Left to right, rounded once. */
static sc_symbol fold(sc_checker *x, int rank, const pl_step *step, const sc_span *from, int64_t k)
{
    sc_symbol sum = x->w->cells[from[0].cell[k]];

    for (int j = 1; j < step->n_from; j++)
        sum = add(x, rank, sum, x->w->cells[from[j].cell[k]], step->reduction);
    if (step->n_from > 1)
        sum.tree = round_tree(sum.tree);
    return sum;
}

/* One `to` of a combination: element k may only be one of the sources' element k. */
static void write_combined(sc_checker *x, int rank, sc_span to, const sc_span *from, int n_from)
{
    const int now = x->ranks[rank].clock[rank];

    for (int64_t k = 0; k < to.n && !x->fault[0]; k++) {
        const int64_t c = to.cell[k];
        bool is_source = false;

        for (int j = 0; j < n_from; j++)
            is_source |= from[j].cell[k] == c;
        if ((sc_own_read(x, rank, c, now) && !is_source) || sc_own_write(x, rank, c, now))
            sc_blame_disturbance(x, rank, c);
        sc_note_write(x, rank, c, "writes");
    }
}

static int owner_of(const pl_place *place, int rank)
{
    return place->rank == PL_SELF ? rank : place->rank;
}

void sc_combine(sc_checker *x, int rank, const pl_step *step)
{
    sc_span *to = calloc((size_t)step->n_to, sizeof *to);
    sc_span *from = calloc((size_t)step->n_from, sizeof *from);

    sc_tick(x, rank);
    for (int i = 0; i < step->n_to; i++)
        to[i] = sc_span_of(x, rank, owner_of(&step->to[i], rank), step->to[i].region);
    for (int j = 0; j < step->n_from; j++)
        from[j] = sc_span_of(x, rank, owner_of(&step->from[j], rank), step->from[j].region);
    for (int i = 0; i < step->n_to; i++)
        for (int j = 0; j < step->n_from; j++)
            if (to[i].n != from[j].n)
                sc_blame(x, rank, "%lld elements combined to %lld", (long long)from[j].n,
                         (long long)to[i].n);
    for (int i = 0; i < step->n_to; i++)
        sc_step_may_write(x, rank, to[i]);
    for (int j = 0; j < step->n_from; j++)
        sc_step_reads(x, rank, from[j]);
    for (int i = 0; i < step->n_to; i++) {
        write_combined(x, rank, to[i], from, step->n_from);
        sc_keep_secret(x, rank, step, to[i], step->to[i].region);
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

void sc_reduce(sc_checker *x, int rank, const pl_step *step)
{
    const sc_runner *k = &x->ranks[rank];
    const sc_span to = sc_span_of(x, rank, rank, step->region);
    const sc_span from = sc_span_of(x, rank, rank, step->source);

    sc_tick(x, rank);
    if (to.n != from.n)
        sc_blame(x, rank, "%lld elements reduced into %lld", (long long)from.n, (long long)to.n);
    for (int64_t i = 0; i < to.n && !x->fault[0]; i++) {
        const int64_t c = to.cell[i];
        const int written = sc_own_write(x, rank, c, k->messages_at);
        const int read = sc_own_read(x, rank, c, k->round_at);
        sc_symbol *sum = &x->w->cells[c];

        if ((written && written < k->reductions_at) ||
            (read && (read < k->messages_at || read >= k->combines_at)))
            sc_blame_disturbance(x, rank, c);
        sc_note_write(x, rank, c, "writes");
        *sum = add(x, rank, *sum, x->w->cells[from.cell[i]], step->reduction);
        sum->tree = round_tree(sum->tree);
    }
    free(to.cell);
    free(from.cell);
}

/* Where the clock of a signal is kept. */
static int *signal_clock(const sc_checker *x, int rank, int of_run, int stage)
{
    const sc_runner *k = &x->ranks[rank];
    const int s = stage == PL_STAGE_END ? k->n_stages + 1 : stage;

    return k->signals + (int64_t)(of_run * (k->n_stages + 2) + s) * x->w->n_ranks;
}

void sc_signal(sc_checker *x, int rank, int stage)
{
    const sc_runner *k = &x->ranks[rank];

    memcpy(signal_clock(x, rank, k->run, stage), k->clock,
           (size_t)x->w->n_ranks * sizeof *k->clock);
}

const int *sc_awaited(const sc_checker *x, int rank, const pl_step *step)
{
    const int of_run = x->ranks[rank].run - step->lag;
    const int *clock =
        of_run < 1 ? x->ranks[rank].clock : signal_clock(x, step->peer, of_run, step->stage);

    return of_run < 1 || clock[step->peer] > 0 ? clock : NULL;
}

/* Carry what can be carried from one rank to another: both ends are posted. */
static void carry(sc_checker *x, int from, int to)
{
    sc_queue *sends = queue_of(x, x->sends, from, to), *recvs = queue_of(x, x->recvs, from, to);

    while (sends->n_done < sends->n && recvs->n_done < recvs->n && !x->fault[0]) {
        const sc_end *s = &sends->ends[sends->n_done++], *r = &recvs->ends[recvs->n_done++];

        if (s->run != r->run)
            sc_blame(x, to, "a message from rank %d is left over from run %d", from, s->run);
        if (s->at.n != r->at.n)
            sc_blame(x, to, "awaits %lld elements from rank %d, which sends %lld",
                     (long long)r->at.n, from, (long long)s->at.n);
        for (int64_t i = 0; i < s->at.n && !x->fault[0]; i++)
            x->w->cells[r->at.cell[i]] = x->w->cells[s->at.cell[i]];
        sc_clock_join(x, x->ranks[to].arrived, x->ranks[from].posted);
        x->ranks[from].n_open--;
        x->ranks[to].n_open--;
    }
}

void sc_carry_round(sc_checker *x, int rank)
{
    int n_steps;
    const pl_step *steps = pl_schedule_round(x->w->schedules[rank], x->ranks[rank].round, &n_steps);

    for (int i = 0; i < n_steps; i++) {
        if (!sc_is_message(&steps[i]))
            continue;
        if (steps[i].kind == PL_STEP_SEND)
            carry(x, rank, steps[i].peer);
        else
            carry(x, steps[i].peer, rank);
    }
}
