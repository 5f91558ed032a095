#include "config.h"

#include "src/roofline/predict.h"

#include "src/base/panic.h"
#include "src/program/communicate.h"
#include "src/roofline/flight.h"
#include "src/roofline/replay.h"
#include "src/roofline/round_robin.h"
#include "src/roofline/sharing.h"

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static void summarise_stage(const pl_replay *r)
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
            out->comm_s += op->alone_s;
            out->exposed_s += op->exposed_s;
        } else {
            out->math_s += op->busy_s;
        }
    }
}

/* T_math: kernels that no communication slows. */
static double kernels_alone_s(const pl_replay *r)
{
    double sum_s = 0;

    for (int i = 0; i < r->p->n_ops; i++)
        if (!pl_kind_is_communication(r->p->ops[i].kind))
            sum_s += r->out->ops[i].alone_s;
    return sum_s;
}

/* The slots' and the update's times of one stage when nothing overlaps. */
typedef struct {
    double *slot_s;   /* [2][n_microbatches]: forward, backward */
    double *update_s; /* [n_ops + 1] between one collective over stages and the next */
} serial_times;

static serial_times serial_times_of(const pl_simulation *sim, const pl_replay *r)
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
            t.update_s[part] += r->out->ops[i].alone_s;
        else
            t.slot_s[(op->phase == PL_BACKWARD) * m + op->microbatch] += r->out->ops[i].alone_s;
        part += pl_is_collective_over_stages(r->p, op);
    }
    return t;
}

static double serial_pipeline_s(const pl_simulation *sim)
{
    const int m = sim->replays[0].p->batch.n_microbatches;
    double slowest_s[2] = {0, 0}, sum_s = 0;
    serial_times *t = pl_arena_alloc(sim->arena, (size_t)sim->n_replays * sizeof *t);
    int n_parts = INT32_MAX;

    for (int s = 0; s < sim->n_replays; s++) {
        t[s] = serial_times_of(sim, &sim->replays[s]);
        for (int i = 0; i < 2 * m; i++)
            slowest_s[i / m] = larger(slowest_s[i / m], t[s].slot_s[i]);
        if (sim->replays[s].p->n_ops + 1 < n_parts)
            n_parts = sim->replays[s].p->n_ops + 1; /* more than there are: the rest are zero */
    }
    for (int part = 0; part < n_parts; part++) {
        double longest_s = 0;

        for (int s = 0; s < sim->n_replays; s++)
            longest_s = larger(longest_s, t[s].update_s[part]);
        sum_s += longest_s;
    }
    return (m + sim->n_stages - 1) * (slowest_s[0] + slowest_s[1]) + sum_s;
}

static void summarise(const pl_simulation *sim, pl_prediction *out)
{
    double alone_s = 0;

    for (int s = 0; s < sim->n_replays; s++) {
        alone_s = kernels_alone_s(&sim->replays[s]);
        out->stages[s] = *sim->replays[s].out;
        const pl_stage_prediction *stage = &out->stages[s];
        out->lower_s = larger(out->lower_s, larger(alone_s, stage->comm_s));
        for (int c = 0; c < PL_N_CLASSES; c++)
            if (sim->replays[s].p->pool_bytes[c] > out->memory_bytes[c])
                out->memory_bytes[c] = sim->replays[s].p->pool_bytes[c];
    }
    out->upper_s = sim->n_stages == 1 ? alone_s + out->stages[0].comm_s : serial_pipeline_s(sim);
}

/* Whether every rank is replayed, if they are few: where messages to other hosts take of the ranks'
 * own cores, each its own part, and where the ranks of a host take turns on its cores. */
static bool is_by_rank(const pl_program *p, int n_stages, const pl_machine *machine)
{
    enum { MOST_REPLAYS = 16 };

    return n_stages == p->n_stages && p->fabric.wires == NULL &&
           pl_mesh_size(p->mesh) <= MOST_REPLAYS &&
           (machine->ranks_per_core > 1 ? pl_takes_turns(p, machine)
                                        : machine->link[PL_LINK_OTHER_HOST].n_cores > 0);
}

static void init_replays(pl_simulation *sim, pl_pricer *pricer, const pl_program *const *stages)
{
    const pl_mesh *mesh = stages[0]->mesh;
    const int pp = pl_mesh_axis(mesh, "pp");
    pl_stage_prediction *out;

    sim->n_replays = sim->by_rank ? (int)pl_mesh_size(mesh) : sim->n_stages;
    sim->replays = pl_arena_alloc(sim->arena, (size_t)sim->n_replays * sizeof *sim->replays);
    out = pl_arena_alloc(sim->arena, (size_t)sim->n_replays * sizeof *out);
    for (int k = 0; k < sim->n_replays; k++) {
        const pl_coords coords =
            sim->by_rank ? pl_mesh_coords(mesh, k) : pl_origin_of_stage(stages[k]);
        const int s = !sim->by_rank ? k : pp < 0 ? 0 : coords.at[pp];

        pl_replay_init(sim, pricer, stages[s], coords, &sim->replays[k], &out[k]);
    }
}

static void free_stage(const pl_stage_prediction *stage)
{
    pl_free(stage->ops);
    pl_free(stage->slot_begin_s);
}

/* Whether r is more the one that others of its stage wait for: it waits less (which is what
 * measurements go by, trace/busiest.h), or as little, and ends later. */
static bool is_busier(const pl_replay *r, const pl_replay *than)
{
    const double own_s = r->out->exposed_s, others_s = than->out->exposed_s;

    return own_s < others_s || (own_s == others_s && r->now_s > than->now_s);
}

/* Keep the busiest rank of each stage. */
static void keep_busiest(pl_simulation *sim)
{
    int n_kept = 0;

    for (int k = 0; k < sim->n_replays; k++) {
        const pl_replay *r = &sim->replays[k];
        int s = 0;

        while (s < n_kept && sim->replays[s].p != r->p)
            s++;
        if (s == n_kept) {
            sim->replays[n_kept++] = *r;
        } else if (is_busier(r, &sim->replays[s])) {
            free_stage(sim->replays[s].out);
            sim->replays[s] = *r;
        } else {
            free_stage(r->out);
        }
    }
    sim->n_replays = n_kept;
}

pl_prediction *pl_predict(const pl_program *const *stages, int n_stages, const pl_machine *machine)
{
    pl_prediction *out = pl_alloc(sizeof *out);
    pl_pricer *pricer = pl_pricer_create(machine);
    pl_simulation sim = {.machine = machine,
                         .n_stages = n_stages,
                         .by_rank = is_by_rank(stages[0], n_stages, machine),
                         .arena = pl_arena_create()};

    out->n_stages = n_stages;
    out->stages = pl_alloc((size_t)n_stages * sizeof *out->stages);
    init_replays(&sim, pricer, stages);
    pl_replay_all(&sim);
    for (int k = 0; k < sim.n_replays; k++) {
        summarise_stage(&sim.replays[k]);
        out->step_s = larger(out->step_s, sim.replays[k].out->step_s);
    }
    keep_busiest(&sim);
    summarise(&sim, out);
    pl_pricer_destroy(pricer);
    pl_arena_destroy(sim.arena);
    return out;
}

void pl_prediction_destroy(pl_prediction *prediction)
{
    if (prediction == NULL)
        return;
    for (int s = 0; s < prediction->n_stages; s++)
        free_stage(&prediction->stages[s]);
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
