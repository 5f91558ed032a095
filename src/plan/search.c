#include "config.h"

#include "src/plan/search.h"

#include "collectives/wires.h"
#include "src/base/block.h"
#include "src/base/memory.h"
#include "src/base/panic.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Kinds of degree, outermost first, as they are enumerated. */
enum { PP, DP, FSDP, TP, N_KINDS };
static const char *const kind_names[N_KINDS] = {"pp", "dp", "fsdp", "tp"};

/* The programs of the candidate in hand, by ZeRO stage. */
enum { N_ZEROS = 3 };
typedef struct {
    pl_plan plan;
    int64_t micro_batch;
    pl_estimator *estimator;
} slot_of_zero;

typedef struct {
    const pl_search_options *o;
    slot_of_zero zero[N_ZEROS];
    pl_slice slice;
    pl_search_result *out;
    double other_bytes[PL_N_REMATS]; /* of the candidate in hand, beside what persists, with
                                      * `other_micro` sequences a microbatch; 0: not known */
    int64_t other_micro;
    double *math_s; /* [n_heads + 1] by tp: the least that kernels of a plan have been seen to take;
                     * 0: none yet */
    int n, room;
    pl_candidate *list; /* those that can be laid out */
} search;

static int64_t parameters(const pl_search_options *o)
{
    return pl_model_n_params(&o->model);
}

double pl_persistent_bytes(const pl_search_options *o, const pl_spec *spec)
{
    const double weight = (double)pl_dtype_bytes(o->dtype), master = o->dtype == PL_F32 ? 0 : 4,
                 dp = pl_spec_degree(spec, "dp"),
                 shards = (double)pl_spec_degree(spec, "pp") * pl_spec_degree(spec, "tp") *
                          pl_spec_degree(spec, "fsdp"),
                 n = (double)parameters(o) / shards;

    return n *
           (weight + 4 / (spec->zero >= 2 ? dp : 1) + (8 + master) / (spec->zero >= 1 ? dp : 1));
}

void pl_candidate_print(const pl_candidate *c, char *text, size_t size)
{
    size_t at = 0;

    text[0] = '\0';
    for (int k = 0; k < N_KINDS && at < size; k++) {
        const int whole = pl_spec_degree(&c->plan.spec, kind_names[k]);
        const bool has_cp =
            c->cp > 1 && k == (pl_spec_degree(&c->plan.spec, "fsdp") > 1 ? FSDP : DP);
        const int degree = has_cp ? whole / c->cp : whole;

        if (degree > 1)
            at += (size_t)snprintf(text + at, size - at, "%s%s:%d", at > 0 ? "+" : "",
                                   kind_names[k], degree);
        if (has_cp && at < size)
            at += (size_t)snprintf(text + at, size - at, "%scp:%d", at > 0 ? "+" : "", c->cp);
    }
    if (at == 0)
        snprintf(text, size, "dp:1");
}

/* ---- what is laid out, and bounds ---- */

static pl_spec spec_of(const int degree[N_KINDS])
{
    char text[PL_SPEC_TEXT] = "";
    size_t at = 0;
    pl_spec spec;

    for (int k = 0; k < N_KINDS; k++)
        if (degree[k] > 1)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%s:%d", at > 0 ? "+" : "",
                                   kind_names[k], degree[k]);
    if (pl_spec_parse(at > 0 ? text : "dp:1", &spec) != PL_OK)
        PL_PANIC("%s", pl_status_message());
    return spec;
}

/* What a layer's communication is about, with the candidate's microbatch. */
typedef struct {
    double activation_bytes; /* [T, B, D] of a microbatch */
    double layer_bytes;      /* weights of a layer on one tp rank */
    double layer_slots;      /* layers of a stage x microbatches */
    double slots;
} volumes;

static volumes volumes_of(const search *s, const pl_candidate *c)
{
    const pl_search_options *o = s->o;
    const pl_spec *spec = &c->plan.spec;
    const pl_batch batch = pl_plan_batch(&c->plan, &c->mesh);
    const double weight = (double)pl_dtype_bytes(o->dtype);

    return (volumes){
        .activation_bytes =
            (double)batch.micro_batch * (double)c->plan.seq * (double)o->model.d_model * weight,
        .layer_bytes =
            (double)parameters(o) / o->model.n_layers * weight / pl_spec_degree(spec, "tp"),
        .layer_slots = (double)pl_block_count(o->model.n_layers, pl_spec_degree(spec, "pp"), 0) *
                       batch.n_microbatches,
        .slots = batch.n_microbatches};
}

/* For the layout: forward and backward together gather or scatter activations over tp 8 times a
 * layer, weights and their gradients (twice as large) over fsdp 4 times. */
static void loads_of(const search *s, const pl_candidate *c, pl_axis_load loads[PL_MAX_AXES])
{
    const volumes v = volumes_of(s, c);
    const pl_spec *spec = &c->plan.spec;
    const double gradients = 4 * (double)parameters(s->o) /
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

/* With kernels of math_s: a pipeline is at best full, and gradients are reduced over dp behind no
 * more than the backward pass of the last microbatch: three quarters of its time. */
static double bound_with(const pl_candidate *c, double math_s)
{
    const double stages = pl_spec_degree(&c->plan.spec, "pp"),
                 slots = pl_plan_batch(&c->plan, &c->mesh).n_microbatches,
                 busy_s = math_s + c->critical_s, least = stages > 1 ? slots : 1;

    return busy_s * (slots + stages - 1) / slots + fmax(c->reduce_s - 0.75 * busy_s / least, 0);
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

    if (!family_wires(c, loads, kind_names[kind], &wires, &load))
        return;
    const pl_wires_price p = pl_wires_collective(&wires, load.collective, load.bytes);
    if (kind == FSDP)
        load.times /= pl_plan_batch(&c->plan, &c->mesh).n_microbatches;
    for (int i = 0; i < wires.n; i++)
        level_s[wires.dim[i].level] += load.times * p.dim_s[i];
    *sum_s += load.times * p.time_s;
}

/* No step is shorter: all FLOPs at the full rate in the slots of a pipeline that is full, and what
 * tp gathers and scatters, which nothing hides; or the busiest level of the network. */
static void set_bound(const search *s, pl_candidate *c, const pl_axis_load *loads)
{
    const pl_search_options *o = s->o;
    const double rate = fmax(pl_curve_at(pl_machine_matmul(&o->machine, o->dtype), 1e18),
                             pl_machine_attention(&o->machine, o->dtype));
    double level_s[PL_MAX_LEVELS] = {0};

    c->math_s = pl_model_flops(&o->model, o->sequences, o->seq, true) / (double)o->chips / rate;
    add_busy(c, loads, TP, level_s, &c->critical_s);
    add_busy(c, loads, FSDP, level_s, &c->gather_s);
    add_busy(c, loads, DP, level_s, &c->reduce_s);
    for (int l = 0; l < PL_MAX_LEVELS; l++)
        c->bound_s = fmax(c->bound_s, level_s[l]);
    c->bound_s = fmax(c->bound_s, bound_with(c, c->math_s));
}

/* Kernels of plans alike in tp take about the same time: nineteen twentieths of what has been seen
 * to be the least is taken as certain. */
static double learned_bound(const search *s, const pl_candidate *c)
{
    const double seen_s = s->math_s[pl_spec_degree(&c->plan.spec, "tp")];

    return fmax(c->bound_s, bound_with(c, 0.95 * seen_s));
}

/* The least number of pieces of a sequence with which there are enough for all ranks; 0: none. */
static int pieces_of(const search *s, const pl_spec *spec)
{
    const int64_t ranks = (int64_t)pl_spec_degree(spec, "dp") * pl_spec_degree(spec, "fsdp"),
                  seqs = s->o->sequences;
    const int whole = pl_spec_degree(spec, pl_spec_degree(spec, "fsdp") > 1 ? "fsdp" : "dp");

    if (s->o->cp > 0)
        return ranks / s->o->cp <= seqs && s->o->seq % s->o->cp == 0 ? s->o->cp : 0;
    if (ranks <= seqs)
        return 1;
    for (int cp = 2; cp <= 64 && cp <= whole; cp++)
        if (whole % cp == 0 && ranks / cp <= seqs && s->o->seq % cp == 0)
            return cp;
    return 0;
}

static pl_candidate candidate_of(const search *s, const pl_spec *spec, int cp)
{
    const pl_search_options *o = s->o;
    pl_candidate c = {.cp = cp};

    c.plan = (pl_plan){.spec = *spec,
                       .model = o->model,
                       .adamw = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1},
                       .batch = o->sequences * cp,
                       .micro_batch = o->micro_batch,
                       .seq = o->seq / cp,
                       .pipeline = o->pipeline,
                       .dtype = o->dtype};
    if (pl_spec_degree(spec, "pp") > 1 && o->micro_batch == 0)
        c.plan.micro_batch = 1;
    if (pl_spec_mesh(spec, &o->model, &c.mesh) != PL_OK)
        PL_PANIC("%s", pl_status_message());
    return c;
}

static void keep(search *s, const pl_candidate *c)
{
    if (s->n == s->room) {
        const int room = s->room > 0 ? 2 * s->room : 64;

        s->list =
            pl_realloc(s->list, (size_t)s->room * sizeof *s->list, (size_t)room * sizeof *s->list);
        s->room = room;
    }
    s->list[s->n++] = *c;
}

static void consider_pieces(search *s, const pl_spec *spec, int cp)
{
    pl_axis_load loads[PL_MAX_AXES];
    double layout_s;
    pl_candidate c = candidate_of(s, spec, cp);

    loads_of(s, &c, loads);
    if (!pl_lay_out(&s->o->hw, &s->slice, &c.mesh, loads, c.wires, &layout_s)) {
        s->out->n_unplaced++;
        return;
    }
    set_bound(s, &c, loads);
    keep(s, &c);
}

/* Sequences in as few pieces as there must be; with a pipeline also in more, since fewer ranks then
 * share the sequences and each has more microbatches. */
static void consider(search *s, const int degree[N_KINDS])
{
    enum { MOST_PIECES = 16, LEAST_TOKENS = 512 };
    pl_spec spec = spec_of(degree);
    const int first = pieces_of(s, &spec);
    const int whole = degree[FSDP] > 1 ? degree[FSDP] : degree[DP];

    s->out->n_meshes++;
    spec.zero = s->o->zero > 0 ? s->o->zero : 0;
    if (first == 0 ||
        pl_spec_check(&spec, &s->o->model, s->o->sequences * first, s->o->chips) != PL_OK) {
        pl_status_clear();
        s->out->n_refused++;
        return;
    }
    consider_pieces(s, &spec, first);
    for (int cp = 2 * first; cp <= MOST_PIECES && degree[PP] > 1 && s->o->fixed.n == 0; cp *= 2)
        if (whole % cp == 0 && s->o->seq % cp == 0 && s->o->seq / cp >= LEAST_TOKENS) {
            s->out->n_meshes++;
            consider_pieces(s, &spec, cp);
        }
}

/* The degree that is given for a kind; 0: open. */
static int given(const search *s, int kind)
{
    if (s->o->fixed.n == 0)
        return 0;
    for (int i = 0; i < s->o->fixed.n; i++)
        if (strcmp(s->o->fixed.strategy[i]->name, kind_names[kind]) == 0)
            return s->o->fixed.degree[i];
    return 1;
}

/* Every way to write `left` as the degrees from `kind` on. */
static void enumerate(search *s, int kind, int64_t left, int degree[N_KINDS])
{
    const int64_t most[N_KINDS] = {s->o->model.n_layers < PL_MAX_STAGES ? s->o->model.n_layers
                                                                        : PL_MAX_STAGES,
                                   left, left, s->o->model.n_heads};

    if (kind == N_KINDS) {
        if (left == 1)
            consider(s, degree);
        return;
    }
    const int wanted = given(s, kind);
    for (int64_t d = 1; d <= left && d <= most[kind]; d++)
        if (left % d == 0 && (wanted == 0 || wanted == d)) {
            degree[kind] = (int)d;
            enumerate(s, kind + 1, left / d, degree);
        }
}

/* ---- prices ---- */

/* A sequence in cp pieces: the program attends within a piece, so what pieces see of each other is
 * added, evenly dealt; keys and values are gathered over cp forward and again backward, their
 * gradients scattered, and hidden behind attention as far as it goes (ring attention). */
static void add_context(const pl_search_options *o, pl_candidate *c, double micro_batch)
{
    const int axis =
        pl_mesh_axis(&c->mesh, pl_spec_degree(&c->plan.spec, "fsdp") > 1 ? "fsdp" : "dp");
    const double tp = pl_spec_degree(&c->plan.spec, "tp"), T = (double)o->seq, piece = T / c->cp,
                 heads = (double)o->model.n_heads / tp, H = (double)o->model.head_dim,
                 kv = fmax((double)o->model.n_kv_heads / tp, 1),
                 rate = pl_machine_attention(&o->machine, o->dtype),
                 pairs = micro_batch * (piece * (T + 1) / 2),
                 seen = micro_batch * (piece * (piece + 1) / 2);
    const double forward_s = 4 * heads * H * pairs / rate,
                 bytes = 2 * micro_batch * T * kv * H * (double)pl_dtype_bytes(o->dtype);
    pl_wires wires = {.n = 0};
    int left = c->cp;

    for (int i = 0; i < c->wires[axis].n && left > 1; i++) {
        pl_wire_dim d = c->wires[axis].dim[i];

        d.is_ring = d.is_ring && d.extent <= left;
        d.extent = d.extent < left ? d.extent : left;
        left = (left + d.extent - 1) / d.extent;
        pl_wires_add(&wires, d);
    }
    const double comm_s = pl_wires_collective(&wires, PL_ALL_GATHER, bytes).time_s;
    c->more.layer_math_s[0] = 4 * heads * H * (pairs - seen) / rate;
    c->more.layer_math_s[1] = 2.5 * c->more.layer_math_s[0];
    c->more.layer_exposed_s[0] = fmax(comm_s - forward_s, 0);
    c->more.layer_exposed_s[1] = fmax(2 * comm_s - 2.5 * forward_s, 0);
    c->more.buffer_bytes = bytes;
}

static void price(search *s, pl_candidate *c)
{
    const pl_search_options *o = s->o;
    const pl_batch batch = pl_plan_batch(&c->plan, &c->mesh);
    slot_of_zero *known = &s->zero[c->plan.spec.zero];

    c->plan.micro_batch = batch.micro_batch;
    c->plan.fabric.wires = c->wires;
    if (c->cp > 1)
        add_context(o, c, (double)batch.micro_batch);
    if (known->estimator == NULL || known->micro_batch != batch.micro_batch) {
        pl_estimator_destroy(known->estimator);
        known->plan = c->plan;
        known->micro_batch = batch.micro_batch;
        known->estimator = pl_estimator_create(&known->plan, &o->machine);
        s->out->n_priced++;
    }
    pl_estimator_step(known->estimator, &c->more, &c->estimate);
    c->mfu = pl_model_flops(&o->model, o->sequences, o->seq, true) /
             (c->estimate.step_s * (double)o->chips * o->peak_flops_per_s);
}

static void forget_estimators(search *s)
{
    for (int z = 0; z < N_ZEROS; z++) {
        pl_estimator_destroy(s->zero[z].estimator);
        s->zero[z].estimator = NULL;
    }
}

static void note_too_large(search *s, const pl_candidate *c, double bytes)
{
    if (s->out->has_smallest && bytes >= s->out->smallest_bytes)
        return;
    s->out->has_smallest = true;
    s->out->smallest_bytes = bytes;
    pl_candidate_print(c, s->out->smallest, sizeof s->out->smallest);
}

/* What is known to be needed with c's microbatch beside what persists: of what another microbatch
 * needs, all that grows with it is taken to. A tenth is left for what ZeRO adds or spares. */
static double other_bytes(const search *s, const pl_candidate *c, int64_t micro_batch)
{
    if (s->other_micro == 0)
        return 0;
    return 0.9 * s->other_bytes[c->more.remat] *
           fmin(1, (double)micro_batch / (double)s->other_micro);
}

/* Price c with one way of recomputing; false when it does not fit. */
static bool price_if_fits(search *s, pl_candidate *c)
{
    const pl_search_options *o = s->o;
    const int64_t micro_batch = pl_plan_batch(&c->plan, &c->mesh).micro_batch;
    const double least = pl_persistent_bytes(o, &c->plan.spec);

    if (least + other_bytes(s, c, micro_batch) > o->hw.chip.hbm_bytes) {
        note_too_large(s, c, least + other_bytes(s, c, micro_batch));
        return false;
    }
    price(s, c);
    double *seen_s = &s->math_s[pl_spec_degree(&c->plan.spec, "tp")];
    *seen_s = *seen_s > 0 ? fmin(*seen_s, c->estimate.math_s) : c->estimate.math_s;
    if (s->other_micro != micro_batch)
        memset(s->other_bytes, 0, sizeof s->other_bytes);
    s->other_micro = micro_batch;
    s->other_bytes[c->more.remat] = fmax(c->estimate.total_bytes - least, 0);
    if (c->estimate.total_bytes <= o->hw.chip.hbm_bytes)
        return true;
    note_too_large(s, c, c->estimate.total_bytes);
    return false;
}

/* The least ZeRO stage, then the least rematerialisation, that fit with c's microbatch. */
static bool price_zero_and_remat(search *s, pl_candidate *c)
{
    const pl_search_options *o = s->o;
    const int first_remat = o->remat == PL_AUTO ? 0 : o->remat,
              last_remat = o->remat == PL_AUTO ? PL_N_REMATS - 1 : o->remat;
    const bool has_dp = pl_spec_degree(&c->plan.spec, "dp") > 1;
    const int first_zero = o->zero == PL_AUTO ? 0 : o->zero,
              last_zero = o->zero == PL_AUTO && has_dp ? 2 : first_zero;

    for (int remat = first_remat; remat <= last_remat; remat++)
        for (int zero = first_zero; zero <= last_zero; zero++) {
            c->more = (pl_additions){.remat = (pl_remat)remat};
            c->plan.spec.zero = zero;
            if (price_if_fits(s, c))
                return true;
        }
    return false;
}

/* Without a pipeline the largest microbatch that fits; with one, growing while it pays. */
static bool price_best(search *s, pl_candidate *c)
{
    const bool has_stages = pl_spec_degree(&c->plan.spec, "pp") > 1;
    pl_candidate next = *c;

    if (s->o->micro_batch > 0 || has_stages) {
        if (!price_zero_and_remat(s, c))
            return false;
        next = *c;
        while (s->o->micro_batch == 0 && next.estimate.n_microbatches > 1) {
            next.plan.micro_batch = 2 * c->plan.micro_batch;
            if (!price_zero_and_remat(s, &next) || next.estimate.step_s >= c->estimate.step_s)
                break;
            *c = next;
        }
        return true;
    }
    next.plan.micro_batch = pl_plan_batch(&c->plan, &c->mesh).micro_batch;
    for (; next.plan.micro_batch >= 1; next.plan.micro_batch /= 2)
        if (price_zero_and_remat(s, &next)) {
            *c = next;
            return true;
        }
    return false;
}

/* Insert among the best; ties go to the one found first. */
static void rank(search *s, const pl_candidate *c)
{
    pl_search_result *out = s->out;
    int at = out->n;

    while (at > 0 && c->estimate.step_s < out->best[at - 1].estimate.step_s)
        at--;
    if (at >= s->o->n_plans)
        return;
    if (out->n < s->o->n_plans)
        out->n++;
    memmove(&out->best[at + 1], &out->best[at], (size_t)(out->n - 1 - at) * sizeof *out->best);
    out->best[at] = *c;
}

/* What a step may take, to look at the likely ones first: a pipeline's microbatch grows until
 * gathering weights for each of them is hidden, or the bubble costs more. */
static double guess_s(const search *s, const pl_candidate *c)
{
    const double stages = pl_spec_degree(&c->plan.spec, "pp"),
                 all = pl_plan_batch(&c->plan, &c->mesh).n_microbatches,
                 seen_s = s->math_s[pl_spec_degree(&c->plan.spec, "tp")],
                 busy_s = c->critical_s + fmax(seen_s, 1.1 * c->math_s);
    double best_s = INFINITY;

    for (double slots = all; slots >= 1; slots /= 2) {
        const double weights_s = fmax(c->gather_s * slots - 0.7 * busy_s, 0),
                     gradients_s = fmax(c->reduce_s - 0.6 * busy_s / slots, 0);

        best_s = fmin(best_s, (busy_s + weights_s) * (slots + stages - 1) / slots + gradients_s);
        if (stages == 1)
            break;
    }
    return best_s;
}

/* The candidate that has not been looked at and promises most; NULL: none. *least_s: no step of any
 * of them is shorter. */
static pl_candidate *most_promising(const search *s, double *least_s)
{
    pl_candidate *found = NULL;
    double best_s = INFINITY;

    *least_s = INFINITY;
    for (int i = 0; i < s->n; i++) {
        pl_candidate *c = &s->list[i];

        if (c->is_done)
            continue;
        const double bound_s = learned_bound(s, c), guess = fmax(guess_s(s, c), bound_s);
        *least_s = fmin(*least_s, bound_s);
        if (guess < best_s) {
            found = c;
            best_s = guess;
        }
    }
    return found;
}

static void price_all(search *s)
{
    pl_search_result *out = s->out;
    int n_done = 0;
    double bound_s = 0;
    pl_candidate *c;

    while ((c = most_promising(s, &bound_s)) != NULL) {
        out->is_proven =
            out->n == s->o->n_plans && bound_s >= out->best[out->n - 1].estimate.step_s;
        if (out->is_proven || (out->n_priced >= s->o->effort && out->n > 0))
            break;
        s->other_micro = 0;
        forget_estimators(s);
        c->is_done = true;
        n_done++;
        if (out->n == s->o->n_plans && learned_bound(s, c) >= out->best[out->n - 1].estimate.step_s)
            continue;
        if (price_best(s, c))
            rank(s, c);
        else
            out->n_too_large++;
    }
    out->is_proven = out->is_proven || c == NULL;
    out->n_bounded = s->n - n_done;
}

/* ---- refusals ---- */

static pl_status check_product(const search *s)
{
    int64_t product = 1;

    for (int i = 0; i < s->o->fixed.n; i++)
        if (s->o->fixed.degree[i] > 0)
            product *= s->o->fixed.degree[i];
    bool is_open = s->o->fixed.n == 0;
    for (int i = 0; i < s->o->fixed.n; i++)
        is_open = is_open || s->o->fixed.degree[i] == 0;
    if (product == s->o->chips || (is_open && s->o->chips % product == 0))
        return PL_OK;
    return pl_refuse(
        PL_BAD_INPUT,
        "--strategy: the product of %s is %lld, not %s--chips %lld; give degrees whose "
        "product is %lld, or --chips %lld",
        s->o->typed, (long long)product, is_open ? "a divisor of " : "", (long long)s->o->chips,
        (long long)s->o->chips, (long long)product);
}

static pl_status refuse_memory(const search *s)
{
    const pl_search_options *o = s->o;
    const double have = o->hw.chip.hbm_bytes, need = s->out->smallest_bytes,
                 all = (double)parameters(o) *
                       ((double)pl_dtype_bytes(o->dtype) + 12 + (o->dtype == PL_F32 ? 0 : 4));

    return pl_refuse(
        PL_BAD_INPUT,
        "%s does not fit: the smallest plan, %s, needs %.3g GB a chip, %.3g GB more "
        "than the %.3g GB of %s; weights, gradients and optimizer alone (%.3g GB) need "
        "%.0f chips: use more --chips, a smaller --batch or --seq%s",
        o->model.name, s->out->smallest, need / 1e9, (need - have) / 1e9, have / 1e9, o->hw.name,
        all / 1e9, ceil(all / have), o->remat == PL_AUTO ? "" : ", or --remat auto");
}

static pl_status refuse_all(const search *s)
{
    if (s->out->has_smallest)
        return refuse_memory(s);
    return pl_refuse(
        PL_BAD_INPUT,
        "no mesh of %lld chips suits: of %d, %d do not fit the model's heads and layers "
        "or its %lld sequences a step, %d the network; use other --chips or --batch",
        (long long)s->o->chips, s->out->n_meshes, s->out->n_refused, (long long)s->o->sequences,
        s->out->n_unplaced);
}

pl_status pl_search(const pl_search_options *options, pl_search_result *result)
{
    search s = {.o = options, .out = result};
    int degree[N_KINDS];
    pl_status status;

    memset(result, 0, sizeof *result);
    status = check_product(&s);
    if (status == PL_OK)
        status = pl_slice_of(&options->hw, options->chips, &s.slice);
    if (status != PL_OK)
        return status;
    s.math_s = pl_alloc((size_t)(options->model.n_heads + 1) * sizeof *s.math_s);
    enumerate(&s, PP, options->chips, degree);
    price_all(&s);
    for (int i = 0; i < result->n; i++)
        result->best[i].plan.fabric.wires = result->best[i].wires;
    if (result->n == 0)
        status = refuse_all(&s);
    forget_estimators(&s);
    pl_free(s.math_s);
    pl_free(s.list);
    return status;
}
