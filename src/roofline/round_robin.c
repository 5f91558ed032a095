#include "config.h"

#include "src/roofline/round_robin.h"

#include "src/program/communicate.h"
#include "src/roofline/flight.h"
#include "src/roofline/sharing.h"

#include <math.h>

typedef struct {
    int running;           /* a replay, or PL_NONE */
    double now_s, since_s; /* since when */
} core;

typedef struct {
    pl_simulation *sim;
    double share; /* ranks of a core */
    int n_cores;
    core *cores;
} turns;

bool pl_takes_turns(const pl_program *p, const pl_machine *machine)
{
    const int64_t n = pl_mesh_size(p->mesh), on_host = p->fabric.ranks_per_host;

    return machine->ranks_per_core > 1 && machine->slice_s > 0 && n <= machine->ranks_per_host &&
           (on_host == 0 || n <= on_host) && p->fabric.host_of == NULL &&
           pl_core_index(machine, 0) >= 0;
}

/* ---- What a rank waits for */

/* Whether every rank that has a part in communication i of r has the flag that `has` looks up. */
static bool all_have(const turns *t, const pl_replay *r, int i,
                     bool (*has)(const pl_replay *r, int i))
{
    if (!has(r, i))
        return false;
    for (int k = 0; k < t->sim->n_replays; k++) {
        const int there = pl_op_there(t->sim, r, i, &t->sim->replays[k]);

        if (there != PL_NONE && !has(&t->sim->replays[k], there))
            return false;
    }
    return true;
}

static bool has_started(const pl_replay *r, int i)
{
    return r->started[i];
}

static bool has_done(const pl_replay *r, int i)
{
    return r->started[i] && !(r->core_left_s[i] > 0);
}

/* Whether r, which waits, has something to do now that others are further with i. */
static bool can_go_on(const turns *t, const pl_replay *r, int i)
{
    if (!r->started[i])
        return false;
    if (r->core_left_s[i] > 0)
        return all_have(t, r, i, has_started);
    return i == r->p->actions[r->at].op && all_have(t, r, i, has_done);
}

/* Who waits for what r has just done goes on from now_s. */
static void wake(const turns *t, const pl_replay *r, int i, double now_s)
{
    for (int k = 0; k < t->sim->n_replays; k++) {
        pl_replay *other = &t->sim->replays[k];
        const int there = other->blocked ? pl_op_there(t->sim, r, i, other) : PL_NONE;

        if (there != PL_NONE && can_go_on(t, other, there)) {
            other->blocked = false;
            other->turn.ready_s = now_s;
        }
    }
}

/* ---- A rank's actions */

/* Own parts of what is in flight, that can be done now: they are done between other things. */
static double take_parts(const turns *t, pl_replay *r)
{
    double work_s = 0;

    for (int k = 0; k < r->n_in_flight; k++) {
        const int i = r->in_flight[k];

        if (r->core_left_s[i] > 0 && all_have(t, r, i, has_started)) {
            work_s += r->core_left_s[i];
            r->turn.taken[r->turn.n_taken++] = i;
        }
    }
    return work_s;
}

static void finish_parts(const turns *t, pl_replay *r, double now_s)
{
    for (int k = 0; k < r->turn.n_taken; k++) {
        r->core_left_s[r->turn.taken[k]] = 0;
        wake(t, r, r->turn.taken[k], now_s);
    }
    r->turn.n_taken = 0;
}

/* r looks after what it has in flight: what all have done is over. */
static void look_after(const turns *t, pl_replay *r, double now_s)
{
    int kept = 0;

    for (int k = 0; k < r->n_in_flight; k++) {
        const int i = r->in_flight[k];

        if (all_have(t, r, i, has_done))
            r->out->ops[i].busy_s = now_s - r->start_s[i];
        else
            r->in_flight[kept++] = i;
    }
    r->n_in_flight = kept;
}

static void begin_action(const turns *t, pl_replay *r, double now_s)
{
    const pl_action action = r->p->actions[r->at];

    r->turn.has_begun = true;
    r->turn.begin_s = now_s;
    r->turn.left_s = 0;
    if (action.kind == PL_ACTION_RUN) {
        r->turn.left_s = r->price[action.op].time_s / t->share;
    } else if (action.kind == PL_ACTION_START) {
        r->turn.left_s = t->sim->machine->comm_overhead_s / t->share;
        r->start_s[action.op] = now_s;
    }
    r->turn.parts_s = take_parts(t, r);
    r->turn.left_s += r->turn.parts_s;
}

static void put_under_way(const turns *t, pl_replay *r, int i, double now_s)
{
    r->started[i] = true;
    r->core_left_s[i] = r->price[i].time_s / t->share;
    r->in_flight[r->n_in_flight++] = i;
    r->out->ops[i].alone_s = r->price[i].time_s + t->sim->machine->comm_overhead_s;
    wake(t, r, i, now_s);
}

/* r has done on its core what its action has needed so far: whether that was all. If it needs more
 * that is turn.left_s, if others do r is blocked. */
static bool is_over(const turns *t, pl_replay *r, double now_s)
{
    const pl_action action = r->p->actions[r->at];

    finish_parts(t, r, now_s);
    look_after(t, r, now_s);
    if (action.kind == PL_ACTION_START && !r->started[action.op]) {
        put_under_way(t, r, action.op, now_s);
        r->turn.left_s = take_parts(t, r);
        return !(r->turn.left_s > 0);
    }
    if (action.kind == PL_ACTION_WAIT && !all_have(t, r, action.op, has_done)) {
        r->turn.left_s = take_parts(t, r);
        r->blocked = !(r->turn.left_s > 0);
        return false;
    }
    return true;
}

static void end_action(const turns *t, pl_replay *r, double now_s)
{
    const pl_action action = r->p->actions[r->at];
    const double time_s = now_s - r->turn.begin_s;
    pl_op_prediction *op = &r->out->ops[action.op];

    r->now_s = now_s;
    if (action.kind == PL_ACTION_RUN) {
        op->alone_s = r->price[action.op].time_s;
        op->busy_s = op->alone_s / t->share;
        op->turns_s = time_s - op->busy_s - r->turn.parts_s;
        pl_note_slot(r, action.op, r->turn.begin_s);
    } else {
        op->exposed_s += time_s;
    }
    op->calls = action.kind != PL_ACTION_START;
    r->turn.has_begun = false;
    r->at++;
}

/* r has its core and nothing left to do on it: it goes on to what needs some of it, or until it is
 * blocked or at its end. */
static void go_on(const turns *t, pl_replay *r, double now_s)
{
    while (r->at < r->p->n_actions) {
        if (!r->turn.has_begun) {
            begin_action(t, r, now_s);
            if (r->turn.left_s > 0)
                return;
        }
        if (!is_over(t, r, now_s))
            return;
        end_action(t, r, now_s);
    }
}

/* ---- Cores */

static bool is_ready(const turns *t, int c, int k)
{
    const pl_replay *r = &t->sim->replays[k];

    return r->turn.core == c && r->at < r->p->n_actions && !r->blocked && t->cores[c].running != k;
}

/* Of those on core c that could go on but do not run the one that has waited longest. */
static int next_of(const turns *t, int c)
{
    int first = PL_NONE;

    for (int k = 0; k < t->sim->n_replays; k++)
        if (is_ready(t, c, k) && (first == PL_NONE || t->sim->replays[k].turn.ready_s <
                                                          t->sim->replays[first].turn.ready_s))
            first = k;
    return first;
}

/* When something happens on core c next. */
static double event_s(const turns *t, int c)
{
    const core *on = &t->cores[c];
    const int next = next_of(t, c);

    if (on->running == PL_NONE)
        return next == PL_NONE ? INFINITY : fmax(on->now_s, t->sim->replays[next].turn.ready_s);
    const double done_s = on->now_s + t->sim->replays[on->running].turn.left_s;
    if (next == PL_NONE)
        return done_s;
    return fmin(done_s, fmax(fmax(on->since_s + t->sim->machine->slice_s, on->now_s),
                             t->sim->replays[next].turn.ready_s));
}

static void happen(turns *t, int c, double now_s)
{
    core *on = &t->cores[c];

    if (on->running == PL_NONE) {
        on->running = next_of(t, c);
        on->now_s = on->since_s = now_s;
        t->sim->replays[on->running].turn.left_s += t->sim->machine->handover_s;
        return;
    }
    pl_replay *r = &t->sim->replays[on->running];
    const double done_s = on->now_s + r->turn.left_s;
    on->now_s = now_s;
    if (now_s < done_s) {
        r->turn.left_s = done_s - now_s;
        r->turn.ready_s = now_s;
        on->running = PL_NONE;
        return;
    }
    r->turn.left_s = 0;
    go_on(t, r, now_s);
    if (r->blocked || r->at == r->p->n_actions)
        on->running = PL_NONE;
}

void pl_round_robin(pl_simulation *sim)
{
    turns t = {.sim = sim,
               .share = sim->machine->ranks_per_core,
               .n_cores = (int)(sim->machine->ranks_per_host / sim->machine->ranks_per_core)};

    t.cores = pl_arena_alloc(sim->arena, (size_t)t.n_cores * sizeof *t.cores);
    for (int c = 0; c < t.n_cores; c++)
        t.cores[c] = (core){PL_NONE, 0, 0};
    for (int k = 0; k < sim->n_replays; k++) {
        pl_replay *r = &sim->replays[k];

        r->turn.core = (int)pl_core_index(sim->machine, k);
        r->turn.taken = pl_arena_alloc(sim->arena, (size_t)r->p->n_ops * sizeof *r->turn.taken);
    }
    for (;;) {
        double now_s = INFINITY;
        int first = PL_NONE;

        for (int c = 0; c < t.n_cores; c++) {
            const double next_s = event_s(&t, c);

            if (next_s < now_s) {
                now_s = next_s;
                first = c;
            }
        }
        if (first == PL_NONE)
            return;
        happen(&t, first, now_s);
    }
}
