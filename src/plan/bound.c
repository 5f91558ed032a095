#include "config.h"

#include "src/plan/bound.h"

#include "collectives/wires.h"
#include "src/base/block.h"
#include "src/plan/beyond.h"
#include "src/roofline/predict.h"

#include <math.h>
#include <string.h>

/* What a layer's communication is about, with the candidate's microbatch. */
typedef struct {
    double activation_bytes; /* [T, B, D] of a microbatch */
    double layer_bytes;      /* weights of a layer on one tp rank */
    double layer_slots;      /* layers of a stage x microbatches */
    double slots;
} volumes;

/* Parameters that chips of one replica share: of experts those of one rank of ep. */
static double parameters(const pl_search_options *o, int ep)
{
    pl_architecture a;

    pl_search_architecture(o, &a);
    return (double)pl_architecture_params(&a).total - pl_expert_params(&a) * (1 - 1 / (double)ep);
}

static volumes volumes_of(const pl_search_options *o, const pl_candidate *c)
{
    const pl_spec *spec = &c->plan.spec;
    const pl_batch batch = pl_plan_batch(&c->plan, &c->mesh);
    const double weight = (double)pl_dtype_bytes(o->dtype);

    return (volumes){
        .activation_bytes =
            (double)batch.micro_batch * (double)c->plan.seq * (double)o->model.d_model * weight,
        .layer_bytes =
            parameters(o, c->ep) / o->model.n_layers * weight / pl_spec_degree(spec, "tp"),
        .layer_slots = (double)pl_block_count(o->model.n_layers, pl_spec_degree(spec, "pp"), 0) *
                       batch.n_microbatches,
        .slots = batch.n_microbatches};
}

void pl_bound_loads(const pl_search_options *o, const pl_candidate *c,
                    pl_axis_load loads[PL_MAX_AXES])
{
    const volumes v = volumes_of(o, c);
    const pl_spec *spec = &c->plan.spec;
    const double gradients = 4 * parameters(o, c->ep) /
                             ((double)pl_spec_degree(spec, "pp") * pl_spec_degree(spec, "fsdp") *
                              pl_spec_degree(spec, "tp"));

    for (int a = 0; a < c->mesh.n_axes; a++) {
        const char *family = c->mesh.axes[a].family;

        if (strcmp(family, "tp") == 0)
            loads[a] = (pl_axis_load){PL_ALL_GATHER, v.activation_bytes, 8 * v.layer_slots};
        else if (strcmp(family, "fsdp") == 0)
            loads[a] = (pl_axis_load){PL_ALL_GATHER, v.layer_bytes, 4 * v.layer_slots};
        else if (strcmp(family, "dp") == 0)
            loads[a] = (pl_axis_load){PL_ALL_REDUCE, gradients, 1};
        else
            loads[a] = (pl_axis_load){
                PL_PERMUTE, v.activation_bytes / pl_spec_degree(&c->plan.spec, "tp"), 2 * v.slots};
    }
}

/* Time of a step whose slots take busy_s together: the bubble is stages - 1 of them, or 1/v as much
 * with v chunks of layers a stage. */
static double with_bubble(const pl_bounds *b, double busy_s, double slots)
{
    return busy_s * (slots + (b->stages - 1) / b->chunks) / slots;
}

/* With kernels of math_s: a pipeline is at best full, and gradients are reduced over dp behind no
 * more than the backward pass of the last microbatch: three quarters of its time. */
static double bound_with(const pl_bounds *b, double math_s)
{
    const double busy_s = math_s + b->critical_s, least = b->stages > 1 ? b->slots : 1;

    return with_bubble(b, busy_s, b->slots) + fmax(b->reduce_s - 0.75 * busy_s / least, 0);
}

/* What carries all axes of a family, and the load of one of them; false: there are none. */
static bool family_wires(const pl_candidate *c, const pl_axis_load *loads, const char *family,
                         pl_wires *wires, pl_axis_load *load)
{
    *wires = (pl_wires){.n = 0};
    for (int a = c->mesh.n_axes - 1; a >= 0; a--) {
        if (strcmp(c->mesh.axes[a].family, family) != 0)
            continue;
        for (int i = 0; i < c->wires[a].n; i++)
            pl_wires_add(wires, c->wires[a].dim[i]);
        *load = loads[a];
    }
    return wires->n > 0;
}

/* How long the loads keep each level of the network busy; of weights that a pipeline gathers for
 * every microbatch one gather is counted. */
static void add_busy(const pl_candidate *c, const pl_axis_load *loads, int kind,
                     double level_s[PL_MAX_LEVELS], double *sum_s)
{
    pl_axis_load load = {0};
    pl_wires wires;

    if (!family_wires(c, loads, pl_degree_names[kind], &wires, &load))
        return;
    const pl_wires_price p = pl_wires_collective(&wires, load.collective, load.bytes);
    if (kind == PL_KIND_FSDP)
        load.times /= pl_plan_batch(&c->plan, &c->mesh).n_microbatches;
    for (int i = 0; i < wires.n; i++)
        level_s[wires.dim[i].level] += load.times * p.dim_s[i];
    *sum_s += load.times * p.time_s;
}

pl_bounds pl_bounds_of(const pl_search_options *o, const pl_candidate *c, const pl_axis_load *loads)
{
    const double rate = fmax(pl_curve_at(pl_machine_matmul(&o->machine, o->dtype), 1e18),
                             pl_machine_attention(&o->machine, o->dtype));
    double level_s[PL_MAX_LEVELS] = {0};
    pl_bounds b = {.stages = pl_spec_degree(&c->plan.spec, "pp"),
                   .slots = pl_plan_batch(&c->plan, &c->mesh).n_microbatches,
                   .chunks = c->more.interleave == PL_AUTO ? pl_candidate_chunks(c)
                                                           : fmax(c->more.interleave, 1)};

    b.math_s = pl_search_flops(o) / (double)o->chips / rate;
    add_busy(c, loads, PL_KIND_TP, level_s, &b.critical_s);
    add_busy(c, loads, PL_KIND_FSDP, level_s, &b.gather_s);
    add_busy(c, loads, PL_KIND_DP, level_s, &b.reduce_s);
    b.critical_s += pl_experts_exposed_s(o, c);
    b.bound_s = bound_with(&b, b.math_s);
    for (int l = 0; l < PL_MAX_LEVELS; l++)
        b.bound_s = fmax(b.bound_s, level_s[l]);
    return b;
}

double pl_bounds_learned_s(const pl_bounds *b, double seen_s)
{
    return fmax(b->bound_s, bound_with(b, 0.95 * seen_s));
}

double pl_bounds_guess_s(const pl_bounds *b, double seen_s)
{
    const double busy_s = b->critical_s + fmax(seen_s, 1.1 * b->math_s);
    double best_s = INFINITY;

    for (double slots = b->slots; slots >= 1; slots /= 2) {
        const double weights_s = fmax(b->gather_s * slots - 0.7 * busy_s, 0),
                     gradients_s = fmax(b->reduce_s - 0.6 * busy_s / slots, 0);

        best_s = fmin(best_s, with_bubble(b, busy_s + weights_s, slots) + gradients_s);
        if (b->stages == 1)
            break;
    }
    return best_s;
}
