#include "config.h"

#include "src/roofline/replay.h"

#include "src/base/panic.h"
#include "src/program/communicate.h"
#include "src/roofline/flight.h"
#include "src/roofline/round_robin.h"
#include "src/roofline/rounds.h"
#include "src/roofline/sharing.h"
#include "src/roofline/streams.h"

#include <math.h>

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Moves between two stages match in the order of their starts, tag by tag. The op of `action`'s
 * kind and tag towards stage `peer` that is the `nth` of them in p's actions. */
static int nth_start(const pl_program *p, pl_kind kind, int peer, int tag, int nth)
{
    for (int a = 0; a < p->n_actions; a++) {
        const pl_op *op = &p->ops[p->actions[a].op];

        if (p->actions[a].kind == PL_ACTION_START && op->kind == kind && op->peer_stage == peer &&
            op->tag == tag && nth-- == 0)
            return p->actions[a].op;
    }
    PL_PANIC("stage %d has no counterpart to a move of stage %d", p->stage, peer);
}

static void match_receives(const pl_simulation *sim, pl_replay *r)
{
    const pl_program *p = r->p;

    for (int a = 0; a < p->n_actions; a++) {
        const int i = p->actions[a].op;
        const pl_op *op = &p->ops[i];
        int nth = 0;

        if (p->actions[a].kind != PL_ACTION_START || op->kind != PL_KIND_RECV)
            continue;
        for (int b = 0; b < a; b++) {
            const pl_op *before = &p->ops[p->actions[b].op];

            nth += p->actions[b].kind == PL_ACTION_START && before->kind == PL_KIND_RECV &&
                   before->peer_stage == op->peer_stage && before->tag == op->tag;
        }
        if (pl_is_alone(sim))
            continue;
        PL_ASSERT(op->peer_stage >= 0 && op->peer_stage < sim->n_stages);
        r->send[i] = nth_start(pl_peer_of(sim, r, op)->p, PL_KIND_SEND, p->stage, op->tag, nth);
    }
}

/* The mean of the largest of n standard normal numbers: the integral of x n phi Phi^(n - 1). */
static double largest_of_normals(int n)
{
    enum { N_STEPS = 200 };
    const double reach = 8, dx = 2 * reach / N_STEPS;
    double sum = 0;

    for (int i = 0; i <= N_STEPS && n > 1; i++) {
        const double x = -reach + i * dx;
        const double below = 0.5 * erfc(-x * M_SQRT1_2);

        sum += x * n * exp(-x * x / 2) / sqrt(2 * M_PI) * pow(below, n - 1) * dx;
    }
    return sum;
}

/* How much later than this rank the last of a collective's group comes, on the average. */
static double last_comes_later_s(const pl_simulation *sim, const pl_replay *r, const pl_op *op)
{
    const double drifted_s = sim->machine->drift * r->apart_s;
    const double variance = sim->machine->jitter_s * r->apart_s + drifted_s * drifted_s;

    if (!(variance > 0) || pl_kind_is_move(op->kind))
        return 0;
    return largest_of_normals(pl_mesh_extent(r->p->mesh, pl_op_group(r->p, op))) * sqrt(variance);
}

/* Ranks that run alike come to a collective together. Where it is cores that move its bytes, they
 * do so at once. */
static double done_at_start_s(const pl_replay *r, int i)
{
    const pl_op *op = &r->p->ops[i];
    const bool is_alike = !pl_kind_is_move(op->kind) && !pl_is_collective_over_stages(r->p, op);

    return r->price[i].by_cores && is_alike ? r->price[i].core_s : 0;
}

/* It may begin at ready_s, where its links are free. */
static void queue_for_links(const pl_simulation *sim, pl_replay *r, int i, double ready_s)
{
    r->goes_by_message[i] = pl_rounds_begin(sim, r, i, ready_s);
    if (r->goes_by_message[i])
        return;
    r->begin_s[i] = ready_s;
    for (int l = 0; l < PL_MAX_LEVELS; l++) {
        const double begin_s = larger(ready_s, r->link_free_s[l]);

        if (r->price[i].link_s[l] > 0) {
            r->link_free_s[l] = begin_s + r->price[i].link_s[l];
            r->begin_s[i] = larger(r->begin_s[i], begin_s);
        }
    }
    r->through_s[i] = r->begin_s[i] + r->price[i].time_s;
    r->whole_until_s = r->link_free_s[0];
}

static void post_receive(pl_replay *r, int i, double posted_s)
{
    r->begin_s[i] = posted_s;
    r->through_s[i] = posted_s + r->price[i].time_s;
}

/* Put it under way, and say what that takes, other messages that fly meanwhile among it: a stream
 * flies while it is started, all else from then on. */
static double post(pl_simulation *sim, pl_replay *r, int i)
{
    r->handed_bytes[i] = pl_stream_handed_bytes(sim, r, i);
    const double work_s = sim->machine->comm_overhead_s + pl_stream_start_s(sim, r, i);
    const pl_op *op = &r->p->ops[i];
    const bool is_recv = op->kind == PL_KIND_RECV; /* queues for the sender's link */
    const bool is_stream = !is_recv && r->is_stream[i];

    if (is_stream) {
        queue_for_links(sim, r, i, r->now_s);
        pl_stream_begin(sim, r, i);
    }
    const double posted_s = pl_work_beside(sim, r, r->now_s, work_s).end_s;
    if (is_recv)
        post_receive(r, i, posted_s);
    else if (!is_stream)
        queue_for_links(sim, r, i, posted_s + last_comes_later_s(sim, r, op));
    return posted_s - r->now_s;
}

static void start(pl_simulation *sim, pl_replay *r, int i)
{
    r->start_s[i] = r->now_s;
    const double overhead_s = post(sim, r, i), done_s = done_at_start_s(r, i);

    r->started_s = r->now_s + overhead_s;
    r->now_s = r->started_s + done_s;
    r->out->ops[i].alone_s = r->price[i].time_s + sim->machine->comm_overhead_s;
    r->out->ops[i].exposed_s = overhead_s + done_s;
    r->core_left_s[i] = r->price[i].core_s - done_s;
    r->started[i] = true;
    r->in_flight[r->n_in_flight++] = i;
}

/* Waiting for one transfer progresses all of them. */
static void do_core_work(pl_replay *r, double idle_s)
{
    for (int k = 0; k < r->n_in_flight && idle_s > 0; k++) {
        double *left_s = &r->core_left_s[r->in_flight[k]];
        const double done_s = *left_s < idle_s ? *left_s : idle_s;

        *left_s -= done_s;
        idle_s -= done_s;
    }
}

/* Ranks that run alike wait for messages together, but messages between hosts come to one of a core
 * before they come to another, by what they may be late: then it has the core for itself. */
static double ahead_s(const pl_replay *r, int i)
{
    return r->of_core == NULL ? r->price[i].late_s : 0;
}

static void finish(const pl_simulation *sim, pl_replay *r, int i, double end_s)
{
    const double handover_s = sim->machine->handover_s;
    const double idle_s = end_s > r->now_s ? end_s - r->now_s : 0;
    int kept = 0;

    do_core_work(r, idle_s);
    pl_note_idle(sim, r, end_s);
    r->idle_from_s = r->now_s;
    if (idle_s > 0) {
        r->apart_s = 0;
        r->ahead_s = ahead_s(r, i);
    }
    r->now_s += idle_s + r->core_left_s[i];
    r->out->ops[i].exposed_s += idle_s;
    if (idle_s > 0) { /* the core is left to others, and taken back */
        r->now_s += 2 * handover_s;
        r->out->ops[i].exposed_s += 2 * handover_s;
    }
    for (int k = 0; k < r->n_in_flight; k++)
        if (r->in_flight[k] != i)
            r->in_flight[kept++] = r->in_flight[k];
    r->n_in_flight = kept;
    r->out->ops[i].busy_s = larger(end_s - r->start_s[i], 0); /* it may have come before */
    r->awaited = i;
    r->awaited_until_s = end_s;
}

void pl_note_slot(pl_replay *r, int i, double begin_s)
{
    const pl_op *op = &r->p->ops[i];
    double *slot_begin_s;

    if (op->phase == PL_UPDATE || op->microbatch == PL_NO_MICROBATCH ||
        op->microbatch >= r->out->n_microbatches)
        return;
    slot_begin_s =
        &r->out->slot_begin_s[(op->phase == PL_BACKWARD) * r->out->n_microbatches + op->microbatch];
    if (*slot_begin_s < 0)
        *slot_begin_s = begin_s;
    r->out->slots_end_s = r->now_s;
}

/* By what has been started so far. */
static void time_kernel(const pl_simulation *sim, pl_replay *r)
{
    const pl_work work = pl_work_beside(sim, r, r->now_s, r->alone_s);

    r->kernel_end_s = work.end_s;
    r->polled_s = work.polled_s;
}

/* How long a kernel that needs r->own_s of its core takes with the turns of others: as many ranks
 * as run with r have theirs, but while r has the core for itself. */
static double with_turns_s(const pl_simulation *sim, pl_replay *r)
{
    const double alone_s = fmin(r->own_s, r->ahead_s),
                 n_ranks = larger(sim->machine->ranks_per_core, 1) * pl_part_of_busy(sim, r);

    r->ahead_s -= alone_s;
    return alone_s + (r->own_s - alone_s) * n_ranks;
}

/* What messages take of it is known when it ends. */
static void begin_kernel(const pl_simulation *sim, pl_replay *r, int i)
{
    const pl_op_price *price = &r->price[i];

    r->is_running = true;
    r->idle_from_s = INFINITY;
    r->own_s = (price->time_s - pl_saved_by_idle_s(sim, r, price)) /
               larger(sim->machine->ranks_per_core, 1);
    r->alone_s = with_turns_s(sim, r);
    time_kernel(sim, r);
}

/* Calls that make progress are not the kernel's time; where ranks take turns, what interrupts take
 * beside it is a turn of others. */
static void end_kernel(const pl_simulation *sim, pl_replay *r, int i)
{
    const double begin_s = r->now_s, time_s = r->price[i].time_s,
                 taken_s = r->kernel_end_s - (begin_s + r->alone_s);

    r->is_running = false;
    r->now_s = r->kernel_end_s;
    r->apart_s += time_s;
    r->out->ops[i].busy_s = r->own_s + taken_s - r->polled_s;
    r->out->ops[i].turns_s = r->alone_s - r->own_s;
    if (sim->machine->ranks_per_core > 1)
        r->out->ops[i].turns_s += r->polled_s;
    r->out->ops[i].alone_s = time_s;
    r->out->ops[i].calls = 1;
    pl_note_slot(r, i, begin_s);
}

/* Replay r's next action, of a kernel its beginning or its end; false when it must wait for another
 * stage. */
static bool step(pl_simulation *sim, pl_replay *r)
{
    const pl_action action = r->p->actions[r->at];
    const int i = action.op;
    double end_s;

    switch (action.kind) {
    case PL_ACTION_RUN:
        if (!r->is_running) {
            begin_kernel(sim, r, i);
            return true;
        }
        end_kernel(sim, r, i);
        break;
    case PL_ACTION_START:
        start(sim, r, i);
        break;
    case PL_ACTION_WAIT:
        end_s = pl_flight_awaited(sim, r, i).end_s;
        if (isinf(end_s))
            return false;
        finish(sim, r, i, end_s);
        r->out->ops[i].calls = 1;
        break;
    }
    r->at++;
    return true;
}

/* When the next thing happens in stage r. */
static double next_s(const pl_replay *r)
{
    return r->is_running ? r->kernel_end_s : r->now_s;
}

/* The stage in which something happens next of those that can go on, or NULL. */
static pl_replay *earliest(const pl_simulation *sim)
{
    pl_replay *first = NULL;

    for (int k = 0; k < sim->n_replays; k++) {
        pl_replay *r = &sim->replays[k];

        if (r->at < r->p->n_actions && !r->blocked && (first == NULL || next_s(r) < next_s(first)))
            first = r;
    }
    return first;
}

/* What was started may be what others wait for, or take of their cores from now on. */
static void hear_of_start(const pl_simulation *sim)
{
    for (int k = 0; k < sim->n_replays; k++) {
        pl_replay *r = &sim->replays[k];

        r->blocked = false;
        if (r->is_running)
            time_kernel(sim, r);
    }
}

/* Event by event in the order of time: who waits leaves its core to others, and what one sends
 * slows kernels of another that have begun before. */
static void replay_in_time(pl_simulation *sim)
{
    pl_replay *r;

    while ((r = earliest(sim)) != NULL) {
        const bool starts = r->p->actions[r->at].kind == PL_ACTION_START;

        r->blocked = !step(sim, r);
        if (starts)
            hear_of_start(sim);
    }
}

/* Each stage as far as it can go, over and over: the same times where no stage slows another. */
static void replay_in_turn(pl_simulation *sim)
{
    bool moved = true;

    while (moved) {
        moved = false;
        for (int k = 0; k < sim->n_replays; k++) {
            pl_replay *r = &sim->replays[k];

            while (r->at < r->p->n_actions && step(sim, r))
                moved = true;
        }
    }
}

void pl_replay_all(pl_simulation *sim)
{
    sim->in_time = sim->by_rank || sim->machine->ranks_per_core > 1 ||
                   (sim->n_stages > 1 && (sim->machine->memory_contention > 1 ||
                                          sim->machine->link[PL_LINK_OTHER_HOST].n_cores > 0));
    for (int k = 0; k < sim->n_replays; k++)
        match_receives(sim, &sim->replays[k]);
    pl_streams_find(sim);
    if (sim->machine->ranks_per_core > 1 && sim->n_stages > 1 && !sim->by_rank && !pl_is_alone(sim))
        pl_find_neighbours(sim);
    if (sim->by_rank && sim->machine->ranks_per_core > 1)
        pl_round_robin(sim);
    else if (sim->in_time)
        replay_in_time(sim);
    else
        replay_in_turn(sim);
    for (int k = 0; k < sim->n_replays; k++)
        if (sim->replays[k].at < sim->replays[k].p->n_actions)
            PL_PANIC("the pipeline's stages wait for each other");
}

static pl_op_price *price_ops(const pl_simulation *sim, pl_pricer *pricer, const pl_program *p,
                              pl_coords coords)
{
    pl_op_price *price = pl_arena_alloc(sim->arena, (size_t)p->n_ops * sizeof *price);

    for (int i = 0; i < p->n_ops; i++)
        price[i] = pl_price_op(pricer, p, &p->ops[i], coords);
    return price;
}

void pl_replay_init(const pl_simulation *sim, pl_pricer *pricer, const pl_program *p,
                    pl_coords coords, pl_replay *r, pl_stage_prediction *out)
{
    const size_t n = (size_t)p->n_ops;

    out->n_ops = p->n_ops;
    out->ops = pl_alloc(n * sizeof *out->ops);
    out->n_microbatches = p->batch.n_microbatches;
    out->slot_begin_s = pl_alloc(2 * (size_t)out->n_microbatches * sizeof *out->slot_begin_s);
    for (int i = 0; i < 2 * out->n_microbatches; i++)
        out->slot_begin_s[i] = -1;
    *r = (pl_replay){.p = p,
                     .coords = coords,
                     .price = price_ops(sim, pricer, p, coords),
                     .out = out,
                     .idle_from_s = INFINITY,
                     .core = sim->by_rank
                                 ? pl_machine_core_cost(sim->machine, pl_mesh_rank(p->mesh, coords))
                                 : pl_core_of_stage(sim->machine, p)};
    r->start_s = pl_arena_alloc(sim->arena, n * sizeof *r->start_s);
    r->begin_s = pl_arena_alloc(sim->arena, n * sizeof *r->begin_s);
    r->through_s = pl_arena_alloc(sim->arena, n * sizeof *r->through_s);
    r->idle_s = pl_arena_alloc(sim->arena, n * sizeof *r->idle_s);
    r->core_left_s = pl_arena_alloc(sim->arena, n * sizeof *r->core_left_s);
    r->handed_bytes = pl_arena_alloc(sim->arena, n * sizeof *r->handed_bytes);
    r->started = pl_arena_alloc(sim->arena, n * sizeof *r->started);
    r->send = pl_arena_alloc(sim->arena, n * sizeof *r->send);
    r->goes_by_message = pl_arena_alloc(sim->arena, n * sizeof *r->goes_by_message);
    pl_streams_init(sim, r);
    r->in_flight = pl_arena_alloc(sim->arena, n * sizeof *r->in_flight);
}
