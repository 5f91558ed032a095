#include "config.h"

#include "src/roofline/estimate.h"

#include "src/base/block.h"
#include "src/base/panic.h"
#include "src/model/architecture.h"
#include "src/roofline/slots.h"
#include "src/roofline/stage_samples.h"

#include <math.h>
#include <string.h>

struct pl_estimator {
    pl_stage_sampler of; /* the plan's stages */
    pl_additions more;   /* in hand */
    pl_stage_pair first, middle, last;
};

typedef pl_estimator estimator;

/* What the program lacks, to the stage and to one layer more of it. */
static void add_formulas(const estimator *e, pl_stage_sample *s, pl_stage_sample *layer, int layers)
{
    const pl_additions *more = &e->more;
    double slot_s[2];

    for (int way = 0; way < 2; way++) {
        slot_s[way] = more->layer_math_s[way] + more->layer_exposed_s[way];
        layer->slot[way].math_s += more->layer_math_s[way];
        layer->slot[way].comm_s += more->layer_exposed_s[way];
        layer->slot[way].exposed_s += more->layer_exposed_s[way];
        s->slot[way].math_s += layers * more->layer_math_s[way];
        s->slot[way].comm_s += layers * more->layer_exposed_s[way];
        s->slot[way].exposed_s += layers * more->layer_exposed_s[way];
    }
    layer->forward_s += slot_s[0];
    s->forward_s += layers * slot_s[0];
    s->backward_s += layers * slot_s[1];
    s->last_s += layers * slot_s[1];
    s->rest_s += more->step_exposed_s;
    s->once.comm_s += more->step_exposed_s;
    s->once.exposed_s += more->step_exposed_s;
}

/* What memory holds more, once the layers are as they will be. */
static void add_memory(const estimator *e, pl_stage_sample *s)
{
    const double p = e->of.n_stages, v = e->more.interleave;

    if (v > 1)
        s->memory[PL_ACTIVATION] *= 1 + (p - 1) / (p * v);
    for (int c = 0; c < PL_N_CLASSES; c++)
        s->memory[c] = fmax(s->memory[c] + e->more.memory_bytes[c], 0);
}

const char *pl_remat_name(pl_remat remat)
{
    static const char *const names[PL_N_REMATS] = {
        [PL_REMAT_NONE] = "none", [PL_REMAT_BLOCK] = "block", [PL_REMAT_MATMULS] = "matmuls"};

    return names[remat];
}

/* What a layer keeps of a microbatch for its backward pass. */
static double kept_bytes(const estimator *e)
{
    const pl_plan *plan = e->of.plan;
    const pl_keep keep = e->more.remat == PL_REMAT_BLOCK ? PL_KEEP_BLOCK : PL_KEEP_MATMULS;
    pl_architecture a;

    pl_model_config_describe(&plan->model, &a);
    return (double)e->of.micro_batch * (double)plan->seq * pl_architecture_kept_elements(&a, keep) *
           (double)pl_dtype_bytes(plan->dtype) / pl_spec_degree(&plan->spec, "tp");
}

/* Backward begins with the layer's forward pass. `layer` is what one more layer adds. */
static void repeat_forward(pl_stage_sample *s, const pl_stage_sample *layer, int layers)
{
    double *const again = (double *)(void *)&s->slot[1];
    const double *const forward = (const double *)(const void *)&layer->slot[0];

    s->backward_s += layers * layer->forward_s;
    s->last_s += layers * layer->forward_s;
    for (size_t i = 0; i < sizeof s->slot[1] / sizeof(double); i++)
        again[i] += layers * forward[i];
}

/* By formula: what is done again; memory holds what all layers keep, and the activations of one. */
static void rematerialise(const estimator *e, pl_stage_sample *s, const pl_stage_sample *layer,
                          int layers, int live)
{
    const double made = layer->memory[PL_ACTIVATION], kept = live * kept_bytes(e);

    if (e->more.remat == PL_REMAT_BLOCK) {
        repeat_forward(s, layer, layers);
    } else {
        s->backward_s += layers * e->more.again_s;
        s->last_s += layers * e->more.again_s;
        s->slot[1].math_s += layers * e->more.again_s;
    }
    if (kept < made)
        s->memory[PL_ACTIVATION] += layers * (kept - made) + made / live;
}

static pl_stage_sample stage_of_pair(const estimator *e, const pl_stage_pair *pair, int index)
{
    const int layers = (int)pl_block_count(e->of.plan->model.n_layers, e->of.n_stages, index);
    pl_stage_sample out = pl_stage_between(pair->a, pair->b, layers - pair->few),
                    layer = pl_stage_between(pair->a, pair->b, 1);

    for (size_t i = 0; i < sizeof layer / sizeof(double); i++)
        pl_stage_numbers(&layer)[i] -= pl_stage_numbers((pl_stage_sample *)&pair->a)[i];
    add_formulas(e, &out, &layer, layers);
    if (e->more.remat != PL_REMAT_NONE)
        rematerialise(e, &out, &layer, layers,
                      pl_live_microbatches(&e->of, e->of.n_stages, index, e->of.n_microbatches));
    add_memory(e, &out);
    return out;
}

pl_estimator *pl_estimator_create(const pl_plan *plan, const pl_machine *machine)
{
    pl_estimator *e = pl_alloc(sizeof *e);
    pl_mesh mesh;

    e->of = (pl_stage_sampler){
        .plan = plan, .machine = machine, .n_stages = pl_spec_degree(&plan->spec, "pp")};
    if (pl_spec_mesh(&plan->spec, &plan->model, &mesh) != PL_OK)
        PL_PANIC("%s", pl_status_message());
    const pl_batch batch = pl_plan_batch(plan, &mesh);
    e->of.n_microbatches = batch.n_microbatches;
    e->of.micro_batch = batch.micro_batch;
    e->first = e->last = pl_sample_stage(&e->of, 0);
    if (e->of.n_stages > 2)
        e->middle = pl_sample_stage(&e->of, 1);
    if (e->of.n_stages > 1)
        e->last = pl_sample_stage(&e->of, e->of.n_stages - 1);
    pl_forget_programs(&e->of);
    return e;
}

void pl_estimator_destroy(pl_estimator *e)
{
    pl_free(e);
}

/* All stages: the first, the last, and those between, which differ only in their layers. */
static pl_stage_sample *estimate_all(const estimator *e)
{
    const int n = e->of.n_stages;
    pl_stage_sample *stages = pl_alloc((size_t)n * sizeof *stages);

    for (int s = 0; s < n; s++)
        stages[s] = stage_of_pair(e, s == 0 ? &e->first : s == n - 1 ? &e->last : &e->middle, s);
    return stages;
}

static void add_more(pl_estimator *e, const pl_additions *more)
{
    e->more = more != NULL ? *more : (pl_additions){.remat = PL_REMAT_NONE};
}

static void take_times(const estimator *e, const pl_stage_sample *stages, pl_stage_times *t)
{
    const size_t bytes = (size_t)e->of.n_stages * sizeof(double);

    *t = (pl_stage_times){.n_stages = e->of.n_stages,
                          .n_microbatches = e->of.n_microbatches,
                          .forward_s = pl_alloc(bytes),
                          .backward_s = pl_alloc(bytes),
                          .last_backward_s = pl_alloc(bytes),
                          .hop_s = pl_alloc(bytes)};
    for (int s = 0; s < e->of.n_stages; s++) {
        t->forward_s[s] = stages[s].forward_s;
        t->backward_s[s] = stages[s].backward_s;
        t->last_backward_s[s] = stages[s].last_s;
        t->hop_s[s] = stages[s].hop_s;
        t->rest_s = fmax(t->rest_s, stages[s].edge_s + stages[s].rest_s);
    }
}

void pl_estimator_stages(pl_estimator *e, const pl_additions *more, pl_stage_times *out)
{
    add_more(e, more);
    pl_stage_sample *stages = estimate_all(e);

    take_times(e, stages, out);
    pl_free(stages);
}

void pl_stage_times_free(pl_stage_times *times)
{
    pl_free(times->forward_s);
    pl_free(times->backward_s);
    pl_free(times->last_backward_s);
    pl_free(times->hop_s);
}

double pl_stage_times_step_s(const pl_stage_times *t, pl_pipeline_kind kind)
{
    const pl_slot_times slots = {.kind = kind,
                                 .n_stages = t->n_stages,
                                 .n_microbatches = t->n_microbatches,
                                 .forward_s = t->forward_s,
                                 .backward_s = t->backward_s,
                                 .last_backward_s = t->last_backward_s,
                                 .hop_s = t->hop_s};

    if (t->n_stages == 1)
        return t->n_microbatches * t->forward_s[0] + (t->n_microbatches - 1) * t->backward_s[0] +
               t->last_backward_s[0] + t->rest_s;
    return pl_slots_replay(&slots, NULL, NULL, NULL) + t->rest_s;
}

/* The sums of a step, of one stage. */
static void add_up(const estimator *e, const pl_stage_sample *s, pl_estimate *out)
{
    const pl_stage_sums *parts[3] = {&s->slot[0], &s->slot[1], &s->once};
    double slowest_s = 0;

    out->n_streams = e->of.n_streams;
    for (int i = 0; i < 3; i++) {
        const double times = i < 2 ? e->of.n_microbatches : 1;

        out->math_s += times * parts[i]->math_s;
        out->flops += times * parts[i]->flops;
        out->comm_s += times * parts[i]->comm_s;
        out->exposed_s += times * parts[i]->exposed_s;
        for (int c = 0; c < e->of.n_streams; c++) {
            out->stream[c].axes = e->of.axes[c];
            out->stream[c].busy_s += times * parts[i]->stream[c][0];
            out->stream[c].exposed_s += times * parts[i]->stream[c][1];
            out->stream[c].wire_bytes += times * parts[i]->stream[c][2];
        }
    }
    for (int c = 0; c < e->of.n_streams; c++)
        slowest_s = fmax(slowest_s, out->stream[c].busy_s);
    out->forward_s = s->forward_s;
    out->backward_s = s->backward_s;
    out->lower_s = fmax(out->math_s, slowest_s);
    out->bubble_s =
        fmax(0, out->step_s - s->edge_s - s->rest_s - e->of.n_microbatches * s->forward_s -
                    (e->of.n_microbatches - 1) * s->backward_s - s->last_s);
    if (e->more.interleave > 1) {
        const double whole_s = out->bubble_s,
                     hops_s = fmin(2 * (e->of.n_stages - 1) * s->hop_s, whole_s);

        out->bubble_s = hops_s + (whole_s - hops_s) / e->more.interleave;
        out->step_s -= whole_s - out->bubble_s;
    }
    out->upper_s = out->math_s + out->comm_s + out->bubble_s;
}

static double total_of(const double *memory)
{
    double sum = 0;

    for (int c = 0; c < PL_N_CLASSES; c++)
        sum += memory[c];
    return sum;
}

void pl_estimator_step(pl_estimator *e, const pl_additions *more, pl_estimate *out)
{
    int busiest = 0;
    pl_stage_times times;

    add_more(e, more);
    pl_stage_sample *stages = estimate_all(e);

    memset(out, 0, sizeof *out);
    take_times(e, stages, &times);
    out->step_s = pl_stage_times_step_s(&times, e->of.plan->pipeline);
    out->n_microbatches = e->of.n_microbatches;
    for (int s = 0; s < e->of.n_stages; s++) {
        if (times.forward_s[s] + times.backward_s[s] >
            times.forward_s[busiest] + times.backward_s[busiest])
            busiest = s;
        if (total_of(stages[s].memory) > out->total_bytes) {
            out->total_bytes = total_of(stages[s].memory);
            memcpy(out->memory_bytes, stages[s].memory, sizeof out->memory_bytes);
        }
    }
    add_up(e, &stages[busiest], out);
    pl_stage_times_free(&times);
    pl_free(stages);
}

void pl_estimate_step(const pl_plan *plan, const pl_additions *more, const pl_machine *machine,
                      pl_estimate *out)
{
    pl_estimator *e = pl_estimator_create(plan, machine);

    pl_estimator_step(e, more, out);
    pl_estimator_destroy(e);
}
