#include "tests/schedule_checker_run.h"

#include <stdlib.h>
#include <string.h>

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

sc_symbol *sc_cell(const sc_world *w, int rank, int array, int64_t offset)
{
    return &w->cells[sc_number_of(w, rank, array, offset)];
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

void sc_region_fill(const sc_world *w, int rank, pl_region region, int64_t first_id)
{
    for (int i = 0; i < region.n_pieces; i++) {
        const pl_piece p = region.pieces[i];

        for (int64_t c = 0; c < p.count; c++)
            for (int64_t k = 0; k < p.length; k++)
                *sc_cell(w, rank, p.array, p.offset + c * p.stride + k) = (sc_symbol){
                    .id = first_id++, .terms = (uint64_t)1 << rank, .tree = sc_tree_of_term(rank)};
    }
}

/* The caller's turn: it reads and overwrites all arrays. */
static void call(sc_checker *x, int rank)
{
    const sc_world *w = x->w;
    const int64_t first = sc_number_of(w, rank, 0, 0), n = w->n_arrays * w->n_elements;
    sc_runner *k = &x->ranks[rank];
    int64_t n_wrong = 0;

    sc_tick(x, rank);
    for (int64_t i = 0; i < n && !x->fault[0]; i++)
        sc_note_write(x, rank, first + i, "its caller uses");
    if (k->run > 0 && x->callers->count_wrong && !x->fault[0])
        n_wrong = x->callers->count_wrong(w, rank, k->run, x->callers->context);
    if (n_wrong > 0)
        sc_blame(x, rank, "wrong result in %lld elements", (long long)n_wrong);
    for (int64_t i = 0; i < n; i++)
        w->cells[first + i] = (sc_symbol){.id = SC_NOTHING};
    k->run++;
    k->round = 0;
    k->stage = 0;
    if (k->run <= SC_RUNS)
        x->callers->fill(w, rank, k->run, x->callers->context);
}

/* Whether the round could begin: all that it awaits has been signalled. */
static bool begin_round(sc_checker *x, int rank)
{
    sc_runner *k = &x->ranks[rank];
    int n_steps;
    const pl_step *steps = pl_schedule_round(x->w->schedules[rank], k->round, &n_steps);

    for (int i = 0; i < n_steps; i++)
        if (steps[i].kind == PL_STEP_AWAIT && !sc_awaited(x, rank, &steps[i]))
            return false;
    for (int i = 0; i < n_steps; i++)
        if (steps[i].kind == PL_STEP_AWAIT)
            sc_clock_join(x, k->clock, sc_awaited(x, rank, &steps[i]));
    k->flies = true;
    k->round_at = k->clock[rank] + 1;
    k->messages_at = k->combines_at = k->reductions_at = NOT_YET;
    for (int i = 0; i < n_steps && !x->fault[0]; i++)
        if (steps[i].kind == PL_STEP_COPY)
            sc_copy(x, rank, &steps[i]);
    memcpy(k->posted, k->clock, (size_t)x->w->n_ranks * sizeof *k->clock);
    memset(k->arrived, 0, (size_t)x->w->n_ranks * sizeof *k->arrived);
    k->messages_at = k->clock[rank] + 1;
    for (int i = 0; i < n_steps && !x->fault[0]; i++)
        if (sc_is_message(&steps[i]))
            sc_post_message(x, rank, &steps[i]);
    k->combines_at = k->clock[rank] + 1;
    for (int i = 0; i < n_steps && !x->fault[0]; i++)
        if (steps[i].kind == PL_STEP_COMBINE)
            sc_combine(x, rank, &steps[i]);
    k->reductions_at = k->clock[rank] + 1;
    return true;
}

static void end_round(sc_checker *x, int rank)
{
    sc_runner *k = &x->ranks[rank];
    int n_steps;
    const pl_step *steps = pl_schedule_round(x->w->schedules[rank], k->round, &n_steps);

    sc_clock_join(x, k->clock, k->arrived);
    for (int i = 0; i < n_steps && !x->fault[0]; i++)
        if (steps[i].kind == PL_STEP_RECV_REDUCE)
            sc_reduce(x, rank, &steps[i]);
    for (int i = 0; i < n_steps; i++)
        if (steps[i].kind == PL_STEP_SIGNAL)
            sc_signal(x, rank, ++k->stage);
    k->flies = false;
    k->round++;
}

/* Go on by up to one round; whether the rank did anything that lets it or others go on. */
static bool advance(sc_checker *x, int rank)
{
    sc_runner *k = &x->ranks[rank];

    if (k->run > SC_RUNS)
        return false;
    if (k->round == k->n_rounds) {
        sc_signal(x, rank, PL_STAGE_END);
        call(x, rank);
        return true;
    }
    if (k->flies && k->n_open > 0)
        return false;
    if (!k->flies) {
        if (!begin_round(x, rank))
            return false;
        if (!x->fault[0])
            sc_carry_round(x, rank);
    }
    if (k->n_open == 0 && !x->fault[0])
        end_round(x, rank);
    return true;
}

static void run_in_turn(sc_checker *x)
{
    bool moves = true;

    while (moves && !x->fault[0]) {
        moves = false;
        for (int r = 0; r < x->w->n_ranks && !x->fault[0]; r++)
            moves |= advance(x, r);
    }
}

static void run_by_priority(sc_checker *x, bool high_first)
{
    const int P = x->w->n_ranks;
    int i = 0;

    while (i < P && !x->fault[0])
        i = advance(x, high_first ? P - 1 - i : i) ? 0 : i + 1;
}

static void runner_init(sc_checker *x, int rank)
{
    const pl_schedule *s = x->w->schedules[rank];
    const size_t P = (size_t)x->w->n_ranks;
    sc_runner *k = &x->ranks[rank];

    k->n_rounds = pl_schedule_n_rounds(s);
    k->n_stages = pl_schedule_stage(s);
    k->n_staging = pl_schedule_staging_elements(s) / x->w->grain;
    k->n_scratch = pl_schedule_scratch_elements(s) / x->w->grain;
    k->clock = calloc(P, sizeof *k->clock);
    k->posted = calloc(P, sizeof *k->posted);
    k->arrived = calloc(P, sizeof *k->arrived);
    k->signals = calloc((SC_RUNS + 1) * (size_t)(k->n_stages + 2) * P, sizeof *k->signals);
}

static void queue_free(sc_queue *q)
{
    for (int i = 0; i < q->n; i++)
        free(q->ends[i].at.cell);
    free(q->ends);
}

static void run_free(sc_checker *x)
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
static void check_end(sc_checker *x)
{
    for (int r = 0; r < x->w->n_ranks; r++)
        if (x->ranks[r].run <= SC_RUNS)
            sc_blame(x, r, "deadlock: waits for ever");
}

const char *sc_run(sc_world *w, const sc_callers *callers, sc_order order)
{
    static char fault[sizeof((sc_checker *)0)->fault];
    const size_t n_cells = (size_t)(w->n_ranks * w->stride) + 1;
    sc_checker *x = calloc(1, sizeof *x);

    x->w = w;
    x->callers = callers;
    x->sends = calloc((size_t)(w->n_ranks * w->n_ranks), sizeof *x->sends);
    x->recvs = calloc((size_t)(w->n_ranks * w->n_ranks), sizeof *x->recvs);
    x->touches = calloc(n_cells, sizeof *x->touches);
    x->read_at = malloc(n_cells * (size_t)w->n_ranks * sizeof *x->read_at);
    for (int r = 0; r < w->n_ranks; r++)
        runner_init(x, r);
    for (int r = 0; r < w->n_ranks; r++)
        sc_check_steps(x, r);
    for (int r = 0; r < w->n_ranks; r++)
        if (pl_schedule_shares(w->schedules[r]))
            sc_check_partners(x, r);
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
