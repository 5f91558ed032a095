#include "config.h"

#include "src/roofline/predict.h"

#include "src/base/panic.h"
#include "src/program/communicate.h"

#include <math.h>

/* One stage as it is replayed. */
typedef struct {
    const pl_program *p;
    const pl_op_price *price; /* [n_ops] */
    double *begin_s;          /* [n_ops] communication: on the link (receives: posted) since then */
    double *core_left_s;      /* [n_ops] what it still needs of the cores */
    bool *started;            /* [n_ops] */
    int *send;                /* [n_ops] receives: the op of the peer that sends to them */
    int *in_flight;           /* [n_ops] in the order of their starts */
    int n_in_flight;
    int at; /* next action */
    double now_s, link_free_s[PL_MAX_LEVELS];
    double apart_s; /* kernels' time since ranks last met: they have drifted apart in it */
    double idle_from_s; /* waits since then, until now_s; later than now_s: does not wait */
    bool blocked;       /* for what another stage has not started yet */
    pl_stage_prediction *out;
} replay;

typedef struct {
    const pl_machine *machine;
    int n_stages;
    replay *stages;
    pl_arena *arena;
} simulation;

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static bool is_collective_over_stages(const pl_program *p, const pl_op *op)
{
    return pl_kind_is_communication(op->kind) && op->kind != PL_KIND_SEND &&
           op->kind != PL_KIND_RECV && (op->axes & pl_mesh_family(p->mesh, "pp")) != 0;
}

/* The rank of a stage that is predicted. */
static pl_coords origin_of_stage(const pl_program *p)
{
    const int pp = pl_mesh_axis(p->mesh, "pp");
    pl_coords coords = {{0}};

    if (pp >= 0)
        coords.at[pp] = p->stage;
    return coords;
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

/* One stage of a pipeline without the others. */
static bool is_alone(const simulation *sim)
{
    return sim->n_stages < sim->stages[0].p->n_stages;
}

static void match_receives(const simulation *sim, replay *r)
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
        if (is_alone(sim))
            continue;
        PL_ASSERT(op->peer_stage >= 0 && op->peer_stage < sim->n_stages);
        r->send[i] = nth_start(sim->stages[op->peer_stage].p, PL_KIND_SEND, p->stage, op->tag, nth);
    }
}

/* The op of another stage that is the same collective: tags count alike on all ranks of a group. */
static int same_collective(const pl_program *p, const pl_op *as)
{
    for (int i = 0; i < p->n_ops; i++)
        if (is_collective_over_stages(p, &p->ops[i]) && p->ops[i].axes == as->axes &&
            p->ops[i].tag == as->tag)
            return i;
    PL_PANIC("stage %d lacks a collective of the others", p->stage);
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
static double last_comes_later_s(const simulation *sim, const replay *r, const pl_op *op)
{
    const double variance = sim->machine->jitter_s * r->apart_s;

    if (!(variance > 0) || op->kind == PL_KIND_SEND || op->kind == PL_KIND_RECV)
        return 0;
    return largest_of_normals(pl_mesh_extent(r->p->mesh, pl_op_group(r->p, op))) * sqrt(variance);
}

/* When communication i of r is over; false when that depends on a start that has not been replayed
 * yet. */
static bool end_of(const simulation *sim, const replay *r, int i, double *end_s)
{
    const pl_op *op = &r->p->ops[i];

    *end_s = r->begin_s[i] + r->price[i].time_s;
    if (is_alone(sim))
        return true;
    if (op->kind == PL_KIND_RECV) {
        const replay *peer = &sim->stages[op->peer_stage];
        const int send = r->send[i];

        if (!peer->started[send])
            return false;
        *end_s = larger(*end_s, peer->begin_s[send] + peer->price[send].time_s);
    } else if (is_collective_over_stages(r->p, op)) {
        for (int s = 0; s < sim->n_stages; s++) {
            const replay *other = &sim->stages[s];
            const int there = other == r ? i : same_collective(other->p, op);

            if (!other->started[there])
                return false;
            *end_s = larger(*end_s, other->begin_s[there] + other->price[there].time_s);
        }
    }
    return true;
}

static void start(const simulation *sim, replay *r, int i)
{
    const double overhead_s = sim->machine->comm_overhead_s;

    r->now_s += overhead_s;
    r->out->ops[i].busy_s = r->price[i].time_s + overhead_s;
    r->out->ops[i].exposed_s = overhead_s;
    r->core_left_s[i] = r->price[i].core_s;
    r->started[i] = true;
    r->in_flight[r->n_in_flight++] = i;
    r->begin_s[i] = r->now_s;
    if (r->p->ops[i].kind == PL_KIND_RECV)
        return; /* it is the sender's link that it queues for */
    const double ready_s = r->now_s + last_comes_later_s(sim, r, &r->p->ops[i]);
    r->begin_s[i] = ready_s;
    for (int l = 0; l < PL_MAX_LEVELS; l++) {
        const double begin_s = larger(ready_s, r->link_free_s[l]);

        if (r->price[i].link_s[l] > 0) {
            r->link_free_s[l] = begin_s + r->price[i].link_s[l];
            r->begin_s[i] = larger(r->begin_s[i], begin_s);
        }
    }
}

/* Waiting for one transfer progresses all of them. */
static void do_core_work(replay *r, double idle_s)
{
    for (int k = 0; k < r->n_in_flight && idle_s > 0; k++) {
        double *left_s = &r->core_left_s[r->in_flight[k]];
        const double done_s = *left_s < idle_s ? *left_s : idle_s;

        *left_s -= done_s;
        idle_s -= done_s;
    }
}

static void finish(replay *r, int i, double end_s)
{
    const double idle_s = end_s > r->now_s ? end_s - r->now_s : 0;
    int kept = 0;

    do_core_work(r, idle_s);
    r->idle_from_s = r->now_s;
    if (idle_s > 0)
        r->apart_s = 0;
    r->now_s += idle_s + r->core_left_s[i];
    r->out->ops[i].exposed_s += idle_s;
    for (int k = 0; k < r->n_in_flight; k++)
        if (r->in_flight[k] != i)
            r->in_flight[kept++] = r->in_flight[k];
    r->n_in_flight = kept;
}

/* Note when slots begin and end. */
static void note_slot(replay *r, int i, double begin_s)
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

/* Prices are those of a rank that shares its core with as many others as the machine says. While
 * some stages wait it is shared by fewer: the part of the price that kernels of r then take. */
static double part_of_busy(const simulation *sim, const replay *r)
{
    const double share = sim->machine->ranks_per_core;
    int n_busy = 0;

    if (!(share > 1) || sim->n_stages == 1)
        return 1;
    for (int s = 0; s < sim->n_stages; s++) {
        const replay *other = &sim->stages[s];

        n_busy += other == r || (other->at < other->p->n_actions && !other->blocked &&
                                 !(other->idle_from_s <= r->now_s));
    }
    return larger(1 / share, (double)n_busy / sim->n_stages);
}

/* Replay r's next action; false when it must wait for another stage. */
static bool step(const simulation *sim, replay *r)
{
    const pl_action action = r->p->actions[r->at];
    const int i = action.op;
    double begin_s, end_s;

    switch (action.kind) {
    case PL_ACTION_RUN:
        begin_s = r->now_s;
        r->now_s += r->price[i].time_s * part_of_busy(sim, r);
        r->apart_s += r->price[i].time_s;
        r->idle_from_s = INFINITY;
        r->out->ops[i].busy_s = r->price[i].time_s;
        r->out->ops[i].calls = 1;
        note_slot(r, i, begin_s);
        break;
    case PL_ACTION_START:
        start(sim, r, i);
        break;
    case PL_ACTION_WAIT:
        if (!end_of(sim, r, i, &end_s))
            return false;
        finish(r, i, end_s);
        r->out->ops[i].calls = 1;
        break;
    }
    r->at++;
    return true;
}

/* The stage that is furthest behind of those that can go on, or NULL. */
static replay *furthest_behind(const simulation *sim)
{
    replay *behind = NULL;

    for (int s = 0; s < sim->n_stages; s++) {
        replay *r = &sim->stages[s];

        if (r->at < r->p->n_actions && !r->blocked && (behind == NULL || r->now_s < behind->now_s))
            behind = r;
    }
    return behind;
}

/* Action by action in the order of time, since who waits leaves its core to others. */
static void replay_in_time(const simulation *sim)
{
    replay *r;

    while ((r = furthest_behind(sim)) != NULL) {
        const bool starts = r->p->actions[r->at].kind == PL_ACTION_START;

        r->blocked = !step(sim, r);
        for (int s = 0; s < sim->n_stages && starts; s++)
            sim->stages[s].blocked = false;
    }
}

/* Each stage as far as it can go, over and over: the same times where no core is shared. */
static void replay_in_turn(const simulation *sim)
{
    bool moved = true;

    while (moved) {
        moved = false;
        for (int s = 0; s < sim->n_stages; s++) {
            replay *r = &sim->stages[s];

            while (r->at < r->p->n_actions && step(sim, r))
                moved = true;
        }
    }
}

static void replay_all(const simulation *sim)
{
    if (sim->machine->ranks_per_core > 1)
        replay_in_time(sim);
    else
        replay_in_turn(sim);
    for (int s = 0; s < sim->n_stages; s++)
        if (sim->stages[s].at < sim->stages[s].p->n_actions)
            PL_PANIC("the pipeline's stages wait for each other");
}

static pl_op_price *price_ops(const simulation *sim, pl_pricer *pricer, const pl_program *p)
{
    pl_op_price *price = pl_arena_alloc(sim->arena, (size_t)p->n_ops * sizeof *price);

    for (int i = 0; i < p->n_ops; i++)
        price[i] = pl_price_op(pricer, p, &p->ops[i], origin_of_stage(p));
    return price;
}

static void replay_init(const simulation *sim, pl_pricer *pricer, const pl_program *p, replay *r,
                        pl_stage_prediction *out)
{
    const size_t n = (size_t)p->n_ops;

    out->n_ops = p->n_ops;
    out->ops = pl_alloc(n * sizeof *out->ops);
    out->n_microbatches = p->batch.n_microbatches;
    out->slot_begin_s = pl_alloc(2 * (size_t)out->n_microbatches * sizeof *out->slot_begin_s);
    for (int i = 0; i < 2 * out->n_microbatches; i++)
        out->slot_begin_s[i] = -1;
    *r = (replay){.p = p, .price = price_ops(sim, pricer, p), .out = out, .idle_from_s = INFINITY};
    r->begin_s = pl_arena_alloc(sim->arena, n * sizeof *r->begin_s);
    r->core_left_s = pl_arena_alloc(sim->arena, n * sizeof *r->core_left_s);
    r->started = pl_arena_alloc(sim->arena, n * sizeof *r->started);
    r->send = pl_arena_alloc(sim->arena, n * sizeof *r->send);
    r->in_flight = pl_arena_alloc(sim->arena, n * sizeof *r->in_flight);
}

static void summarise_stage(const replay *r)
{
    pl_stage_prediction *out = r->out;

    out->step_s = r->now_s;
    for (int i = 0; i < r->p->n_ops; i++) {
        pl_op_prediction *op = &out->ops[i];

        op->flops = r->price[i].flops;
        op->bytes = r->price[i].bytes;
        op->wire_bytes = r->price[i].wire_bytes;
        op->bound = r->price[i].bound;
        if (pl_kind_is_communication(r->p->ops[i].kind)) {
            op->hidden_s = larger(op->busy_s - op->exposed_s, 0);
            out->comm_s += op->busy_s;
            out->exposed_s += op->exposed_s;
        } else {
            out->math_s += op->busy_s;
        }
    }
}

/* The slots' and the update's times of one stage when nothing overlaps. */
typedef struct {
    double *slot_s;   /* [2][n_microbatches]: forward, backward */
    double *update_s; /* [n_ops + 1] between one collective over stages and the next */
} serial_times;

static serial_times serial_times_of(const simulation *sim, const replay *r)
{
    const int m = r->p->batch.n_microbatches;
    serial_times t;
    int part = 0;

    t.slot_s = pl_arena_alloc(sim->arena, 2 * (size_t)m * sizeof *t.slot_s);
    t.update_s = pl_arena_alloc(sim->arena, ((size_t)r->p->n_ops + 1) * sizeof *t.update_s);
    for (int a = 0; a < r->p->n_actions; a++) {
        const int i = r->p->actions[a].op;
        const pl_op *op = &r->p->ops[i];

        if (r->p->actions[a].kind == PL_ACTION_START)
            continue;
        if (op->phase == PL_UPDATE || op->microbatch == PL_NO_MICROBATCH)
            t.update_s[part] += r->out->ops[i].busy_s;
        else
            t.slot_s[(op->phase == PL_BACKWARD) * m + op->microbatch] += r->out->ops[i].busy_s;
        part += is_collective_over_stages(r->p, op);
    }
    return t;
}

static double serial_pipeline_s(const simulation *sim)
{
    const int m = sim->stages[0].p->batch.n_microbatches;
    double slowest_s[2] = {0, 0}, sum_s = 0;
    serial_times *t = pl_arena_alloc(sim->arena, (size_t)sim->n_stages * sizeof *t);
    int n_parts = INT32_MAX;

    for (int s = 0; s < sim->n_stages; s++) {
        t[s] = serial_times_of(sim, &sim->stages[s]);
        for (int i = 0; i < 2 * m; i++)
            slowest_s[i / m] = larger(slowest_s[i / m], t[s].slot_s[i]);
        if (sim->stages[s].p->n_ops + 1 < n_parts)
            n_parts = sim->stages[s].p->n_ops + 1; /* more than there are: the rest are zero */
    }
    for (int part = 0; part < n_parts; part++) {
        double longest_s = 0;

        for (int s = 0; s < sim->n_stages; s++)
            longest_s = larger(longest_s, t[s].update_s[part]);
        sum_s += longest_s;
    }
    return (m + sim->n_stages - 1) * (slowest_s[0] + slowest_s[1]) + sum_s;
}

static void summarise(const simulation *sim, pl_prediction *out)
{
    for (int s = 0; s < sim->n_stages; s++) {
        pl_stage_prediction *stage = &out->stages[s];

        summarise_stage(&sim->stages[s]);
        out->step_s = larger(out->step_s, stage->step_s);
        out->lower_s = larger(out->lower_s, larger(stage->math_s, stage->comm_s));
        for (int c = 0; c < PL_N_CLASSES; c++)
            if (sim->stages[s].p->pool_bytes[c] > out->memory_bytes[c])
                out->memory_bytes[c] = sim->stages[s].p->pool_bytes[c];
    }
    out->upper_s =
        sim->n_stages == 1 ? out->stages[0].math_s + out->stages[0].comm_s : serial_pipeline_s(sim);
}

pl_prediction *pl_predict(const pl_program *const *stages, int n_stages, const pl_machine *machine)
{
    pl_prediction *out = pl_alloc(sizeof *out);
    pl_pricer *pricer = pl_pricer_create(machine);
    simulation sim = {.machine = machine, .n_stages = n_stages, .arena = pl_arena_create()};

    out->n_stages = n_stages;
    out->stages = pl_alloc((size_t)n_stages * sizeof *out->stages);
    sim.stages = pl_arena_alloc(sim.arena, (size_t)n_stages * sizeof *sim.stages);
    for (int s = 0; s < n_stages; s++)
        replay_init(&sim, pricer, stages[s], &sim.stages[s], &out->stages[s]);
    for (int s = 0; s < n_stages; s++)
        match_receives(&sim, &sim.stages[s]);
    replay_all(&sim);
    summarise(&sim, out);
    pl_arena_destroy(sim.arena);
    pl_pricer_destroy(pricer);
    return out;
}

void pl_prediction_destroy(pl_prediction *prediction)
{
    if (prediction == NULL)
        return;
    for (int s = 0; s < prediction->n_stages; s++) {
        pl_free(prediction->stages[s].ops);
        pl_free(prediction->stages[s].slot_begin_s);
    }
    pl_free(prediction->stages);
    pl_free(prediction);
}

static void add_wire(pl_wire *wire, pl_axes axes, int64_t bytes)
{
    int i = 0;

    while (i < wire->n && wire->axes[i] != axes)
        i++;
    if (i == wire->n) {
        PL_ASSERT(wire->n < PL_MAX_WIRES);
        wire->axes[wire->n++] = axes;
    }
    wire->bytes[i] += bytes;
}

pl_wire pl_predict_wire(const pl_program *const *stages, int n_stages)
{
    const pl_mesh *mesh = stages[0]->mesh;
    const int pp = pl_mesh_axis(mesh, "pp");
    pl_pricer *pricer = pl_pricer_create(NULL);
    pl_wire wire = {0};

    for (int64_t rank = 0; rank < pl_mesh_size(mesh); rank++) {
        const pl_coords coords = pl_mesh_coords(mesh, rank);
        const int stage = pp >= 0 ? coords.at[pp] : 0;

        PL_ASSERT(stage < n_stages);
        for (int i = 0; i < stages[stage]->n_ops; i++) {
            const pl_op *op = &stages[stage]->ops[i];

            if (pl_kind_is_communication(op->kind))
                add_wire(&wire, pl_op_group(stages[stage], op),
                         pl_price_op(pricer, stages[stage], op, coords).wire_bytes);
        }
    }
    pl_pricer_destroy(pricer);
    return wire;
}

double pl_model_flops(const pl_model_config *model, int64_t n_sequences, int64_t seq,
                      bool with_backward)
{
    pl_architecture a;

    pl_model_config_describe(model, &a);
    const double token = pl_architecture_matmul_flops(&a) +
                         pl_architecture_attention_flops(&a, ((double)seq + 1) / 2);
    const double forward = (double)n_sequences * (double)seq * token;

    return with_backward ? 3 * forward : forward;
}
