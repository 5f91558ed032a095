#include "config.h"

#include "src/plan/beyond.h"

#include "collectives/wires.h"
#include "src/base/block.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void pl_stand_in(const pl_architecture *a, pl_model_config *m)
{
    const int64_t n_visited = a->n_active_experts + a->n_shared_experts,
                  F = a->n_experts > 0 ? n_visited * a->d_ff_expert : a->d_ff;
    const bool compressed = a->kv_rank > 0 && a->n_heads % 8 == 0;

    *m = (pl_model_config){.n_layers = (int)a->n_layers,
                           .d_model = a->d_model,
                           .n_heads = a->n_heads,
                           .n_kv_heads = compressed ? 8 : a->n_kv_heads,
                           .head_dim = a->head_dim,
                           .d_ff = a->gated ? F : F * 2 / 3,
                           .vocab = a->vocab,
                           .max_seq = a->max_seq,
                           .rms_eps = 1e-5,
                           .rope_theta = 1e4,
                           .tied = a->tied};
    snprintf(m->name, sizeof m->name, "%s", a->name);
}

double pl_expert_params(const pl_architecture *a)
{
    pl_part parts[PL_MAX_PARTS];
    const int n = pl_architecture_parts(a, parts);
    double sum = 0;

    for (int i = 0; i < n; i++)
        if (parts[i].n_each > 1)
            sum += (double)(parts[i].rows * parts[i].cols * parts[i].n_layers * parts[i].n_each);
    return sum;
}

/* `size` ranks along a candidate's shared axis, `inside` ranks apart: ep is innermost, then cp. */
static pl_wires part_of_axis(const pl_candidate *c, int inside, int size)
{
    const int axis = pl_mesh_axis(&c->mesh, pl_candidate_shared_axis(&c->plan.spec));
    pl_wires wires = {.n = 0};

    for (int i = 0; axis >= 0 && i < c->wires[axis].n && size > 1; i++) {
        pl_wire_dim d = c->wires[axis].dim[i];
        const int skipped = inside < d.extent ? inside : d.extent,
                  room = (d.extent + skipped - 1) / skipped, taken = room < size ? room : size;

        inside = (inside + skipped - 1) / skipped;
        d.is_ring = d.is_ring && taken == d.extent;
        d.extent = taken;
        size = (size + taken - 1) / taken;
        pl_wires_add(&wires, d);
    }
    return wires;
}

/* The whole of an axis; none where the mesh lacks it. */
static pl_wires all_of_axis(const pl_candidate *c, const char *name)
{
    const int axis = pl_mesh_axis(&c->mesh, name);

    return axis >= 0 ? c->wires[axis] : (pl_wires){.n = 0};
}

static double seconds(const pl_wires *wires, pl_collective collective, double bytes)
{
    return wires->n > 0 ? pl_wires_collective(wires, collective, bytes).time_s : 0;
}

/* ---- sequences in pieces ---- */

static double heads_of_rank(const pl_search_options *o, const pl_candidate *c)
{
    return (double)o->model.n_heads / pl_spec_degree(&c->plan.spec, "tp");
}

/* q . k and p . v of a layer, forward, where each position sees `keys` on average. */
static double attention_s(const pl_search_options *o, const pl_candidate *c, double micro_batch,
                          double keys)
{
    return 4 * heads_of_rank(o, c) * (double)o->model.head_dim * micro_batch * (double)c->plan.seq *
           keys / pl_machine_attention(&o->machine, o->dtype);
}

static void add_context(const pl_search_options *o, pl_candidate *c, double micro_batch)
{
    const double T = (double)o->seq, all_s = attention_s(o, c, micro_batch, (T + 1) / 2),
                 own_s = attention_s(o, c, micro_batch, ((double)c->plan.seq + 1) / 2),
                 kv = fmax((double)o->model.n_kv_heads / pl_spec_degree(&c->plan.spec, "tp"), 1),
                 bytes = 2 * micro_batch * T * kv * (double)o->model.head_dim *
                         (double)pl_dtype_bytes(o->dtype);
    const pl_wires wires = part_of_axis(c, c->ep, c->cp);
    const double comm_s = seconds(&wires, PL_ALL_GATHER, bytes);

    c->more.layer_math_s[0] += all_s - own_s;
    c->more.layer_math_s[1] += 2.5 * (all_s - own_s);
    c->more.layer_exposed_s[0] += fmax(comm_s - all_s, 0);
    c->more.layer_exposed_s[1] += fmax(2 * comm_s - 2.5 * all_s, 0);
    c->more.memory_bytes[PL_COMM_BUFFER] += bytes;
}

/* ---- experts ---- */

static double layers_of_stage(const pl_search_options *o, const pl_candidate *c)
{
    return (double)pl_block_count(o->model.n_layers, pl_spec_degree(&c->plan.spec, "pp"), 0);
}

/* Of n groups of ranks, how many hold some of k experts that a token chooses at random. */
static double groups_visited(double n, double k)
{
    return n * (1 - pow(1 - 1 / n, k));
}

/* Tokens to experts, or back: each token once to every group that holds one of its experts. Inside
 * a node groups are chips; between nodes they are nodes, where what came once is handed on. */
static double send_s(const pl_search_options *o, const pl_candidate *c, double token_bytes)
{
    const double k = (double)o->architecture.n_active_experts;
    const pl_wires wires = part_of_axis(c, 1, c->ep);
    pl_wires inside = {.n = 0}, between = {.n = 0};

    for (int i = 0; i < wires.n; i++)
        pl_wires_add(wires.dim[i].level == wires.dim[0].level ? &inside : &between, wires.dim[i]);
    return fmax(seconds(&inside, PL_ALL_TO_ALL,
                        token_bytes * groups_visited((double)pl_wires_chips(&inside), k)),
                between.n == 0
                    ? 0
                    : seconds(&between, PL_ALL_TO_ALL,
                              token_bytes * groups_visited((double)pl_wires_chips(&between), k)));
}

/* Of a microbatch on a chip: tp splits the tokens between blocks. */
static double token_bytes(const pl_search_options *o, const pl_candidate *c, double micro_batch)
{
    return micro_batch * (double)c->plan.seq / pl_spec_degree(&c->plan.spec, "tp") *
           (double)o->model.d_model * (double)pl_dtype_bytes(o->dtype);
}

/* Both AllToAlls of a layer, one way; layers without experts send nothing. */
static double exchange_s(const pl_search_options *o, const pl_candidate *c, double micro_batch)
{
    const pl_architecture *a = &o->architecture;
    const double share = 1 - (double)a->n_dense_layers / (double)a->n_layers;

    return c->ep == 1 ? 0 : share * 2 * send_s(o, c, token_bytes(o, c, micro_batch));
}

double pl_experts_exposed_s(const pl_search_options *o, const pl_candidate *c)
{
    const pl_batch batch = pl_plan_batch(&c->plan, &c->mesh);

    if (c->ep == 1)
        return 0;
    return 2 * exchange_s(o, c, (double)batch.micro_batch) * layers_of_stage(o, c) *
           batch.n_microbatches;
}

/* Experts' weights of a layer on a chip that has all of its D, in elements: those of the
 * architecture, or those that the stand-in has in their place. */
static double expert_elements(const pl_search_options *o, const pl_candidate *c, bool stand_in)
{
    const pl_architecture *a = &o->architecture;
    const double one = pl_expert_params(a) / (double)(a->n_experts * a->n_layers),
                 n = stand_in ? (double)a->n_active_experts : (double)a->n_experts / c->ep;

    return n * one / pl_spec_degree(&c->plan.spec, "tp");
}

/* Weights that few tokens visit take longer to read than to multiply with. */
static double reading_s(const pl_search_options *o, const pl_candidate *c, double micro_batch)
{
    const double tokens = micro_batch * (double)c->plan.seq,
                 flops = 2 * tokens * expert_elements(o, c, true),
                 bytes = (double)pl_dtype_bytes(o->dtype) * expert_elements(o, c, false);
    const pl_curve *memory = &o->machine.memory_bytes_per_s;

    return fmax(0, bytes / pl_curve_at(memory, 1e18) -
                       flops / pl_curve_at(pl_machine_matmul(&o->machine, o->dtype), 1e18));
}

/* How much longer gradients are reduced, and over fsdp weights gathered, than the stand-in's. */
static void add_sharing(const pl_search_options *o, pl_candidate *c, double layer_s)
{
    const double weight = (double)pl_dtype_bytes(o->dtype),
                 fsdp = pl_spec_degree(&c->plan.spec, "fsdp"), ours = expert_elements(o, c, false),
                 theirs = expert_elements(o, c, true);
    const int whole = pl_spec_degree(&c->plan.spec, pl_candidate_shared_axis(&c->plan.spec));
    const pl_wires dp = all_of_axis(c, "dp"), shared = part_of_axis(c, c->ep, whole / c->ep);

    if (fsdp > 1) {
        const pl_wires all = all_of_axis(c, "fsdp");
        const double gather_s = seconds(&shared, PL_ALL_GATHER, weight * ours),
                     before_s = seconds(&all, PL_ALL_GATHER, weight * theirs),
                     scatter_s = seconds(&shared, PL_REDUCE_SCATTER, 4 * ours),
                     after_s = seconds(&all, PL_REDUCE_SCATTER, 4 * theirs);

        c->more.layer_exposed_s[0] += fmax(0, gather_s - fmax(before_s, layer_s));
        c->more.layer_exposed_s[1] +=
            fmax(0, gather_s + scatter_s - fmax(before_s + after_s, 2 * layer_s));
    }
    const double L = layers_of_stage(o, c);
    const double reduce_s = fsdp > 1 ? seconds(&dp, PL_ALL_REDUCE, 4 * L * ours * c->ep / fsdp) -
                                           seconds(&dp, PL_ALL_REDUCE, 4 * L * theirs / fsdp)
                                     : seconds(&shared, PL_ALL_REDUCE, 4 * L * ours) -
                                           seconds(&dp, PL_ALL_REDUCE, 4 * L * theirs);
    c->more.step_exposed_s += fmax(reduce_s, 0);
}

static void add_experts(const pl_search_options *o, pl_candidate *c, double micro_batch)
{
    const double away_s = exchange_s(o, c, micro_batch), read_s = reading_s(o, c, micro_batch),
                 layer_s = pl_search_flops(o) / 3 / (double)o->chips / layers_of_stage(o, c) /
                           pl_plan_batch(&c->plan, &c->mesh).n_microbatches /
                           pl_curve_at(pl_machine_matmul(&o->machine, o->dtype), 1e18);

    for (int way = 0; way < 2; way++) {
        c->more.layer_exposed_s[way] += away_s;
        c->more.layer_math_s[way] += (way + 1) * read_s;
    }
    add_sharing(o, c, layer_s);
    if (c->ep > 1)
        c->more.memory_bytes[PL_COMM_BUFFER] +=
            2 * (double)o->architecture.n_active_experts * token_bytes(o, c, micro_batch);
}

/* ---- the rest of the architecture ---- */

static void add_flops(const pl_search_options *o, pl_candidate *c, const pl_architecture *a,
                      const pl_architecture *stand_in, double micro_batch)
{
    const double tokens = micro_batch * (double)c->plan.seq, keys = ((double)o->seq + 1) / 2,
                 tp = pl_spec_degree(&c->plan.spec, "tp"),
                 per_layer = tokens / tp / (double)a->n_layers;
    const double products =
                     pl_architecture_matmul_flops(a) - pl_architecture_matmul_flops(stand_in),
                 attention = pl_architecture_attention_flops(a, keys) -
                             pl_architecture_attention_flops(stand_in, keys);
    const double more_s =
        per_layer * (products / pl_curve_at(pl_machine_matmul(&o->machine, o->dtype), 1e18) +
                     attention / pl_machine_attention(&o->machine, o->dtype));

    c->more.layer_math_s[0] += more_s;
    c->more.layer_math_s[1] += 2 * more_s;
}

pl_layout pl_candidate_layout(const pl_search_options *o, const pl_candidate *c)
{
    static const pl_keep keeps[PL_N_REMATS] = {[PL_REMAT_NONE] = PL_KEEP_ALL,
                                               [PL_REMAT_BLOCK] = PL_KEEP_BLOCK,
                                               [PL_REMAT_MATMULS] = PL_KEEP_MATMULS};
    const pl_batch batch = pl_plan_batch(&c->plan, &c->mesh);
    const pl_spec *spec = &c->plan.spec;
    const double weight = (double)pl_dtype_bytes(o->dtype), dp = pl_spec_degree(spec, "dp"),
                 fsdp = pl_spec_degree(spec, "fsdp");

    return (pl_layout){.dp = dp,
                       .fsdp = fsdp,
                       .tp = pl_spec_degree(spec, "tp"),
                       .pp = pl_spec_degree(spec, "pp"),
                       .ep = c->ep,
                       .zero = spec->zero,
                       .sequences = (double)batch.micro_batch * dp * fsdp,
                       .microbatches = batch.n_microbatches,
                       .seq = (double)c->plan.seq,
                       .weight_bytes = weight,
                       .gradient_bytes = 4,
                       .moment_bytes = o->dtype == PL_F32 ? 8 : 12,
                       .activation_bytes = weight,
                       .keep = keeps[c->more.remat]};
}

double pl_candidate_persistent(const pl_search_options *o, const pl_candidate *c)
{
    const pl_layout layout = pl_candidate_layout(o, c);
    pl_architecture a;

    pl_search_architecture(o, &a);
    const pl_footprint f = pl_footprint_of(&a, &layout);
    return pl_footprint_persistent(&f);
}

static void add_memory(const pl_search_options *o, pl_candidate *c, const pl_architecture *a,
                       const pl_architecture *stand_in)
{
    pl_layout layout = pl_candidate_layout(o, c);
    const double moments = layout.moment_bytes > 8 ? 8 / layout.moment_bytes : 1;
    const pl_footprint ours = pl_footprint_of(a, &layout);
    double *more = c->more.memory_bytes;

    layout.ep = 1;
    const pl_footprint theirs = pl_footprint_of(stand_in, &layout);
    more[PL_WEIGHT] += ours.weights_bytes - theirs.weights_bytes;
    more[PL_GRADIENT] += ours.gradients_bytes - theirs.gradients_bytes;
    more[PL_MOMENT] += moments * (ours.moments_bytes - theirs.moments_bytes);
    more[PL_MASTER] += (1 - moments) * (ours.moments_bytes - theirs.moments_bytes);
    more[PL_COMM_BUFFER] += ours.gathered_bytes - theirs.gathered_bytes;
    more[PL_ACTIVATION] += ours.activations_bytes + ours.working_bytes - theirs.activations_bytes -
                           theirs.working_bytes;
}

void pl_beyond_add(const pl_search_options *o, pl_candidate *c, double micro_batch)
{
    const double T = (double)o->seq;
    pl_architecture a, stand_in;

    c->more = (pl_additions){.remat = c->more.remat,
                             .interleave = o->interleave == PL_AUTO ? 1 : o->interleave,
                             .again_s = attention_s(o, c, micro_batch, (T + 1) / 2)};
    if (c->cp > 1)
        add_context(o, c, micro_batch);
    if (o->architecture.n_layers == 0)
        return;
    pl_search_architecture(o, &a);
    pl_model_config_describe(&o->model, &stand_in);
    add_flops(o, c, &a, &stand_in, micro_batch);
    add_memory(o, c, &a, &stand_in);
    if (a.n_experts > 0)
        add_experts(o, c, micro_batch);
}
