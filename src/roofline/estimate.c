#include "config.h"

#include "src/roofline/estimate.h"

#include "src/base/block.h"
#include "src/base/panic.h"
#include "src/model/architecture.h"
#include "src/program/communicate.h"
#include "src/roofline/slots.h"

#include <math.h>
#include <string.h>

enum { FEW_LAYERS = 2, FEW_STAGES = 3, FEW_MICROBATCHES = 3 };

/* Kernels and communication of a microbatch, or of what is done once a step. */
typedef struct {
    double math_s, flops, comm_s, exposed_s;
    double stream[PL_MAX_STREAMS][3]; /* busy_s, exposed_s, wire_bytes */
} sums;

/* One stage: all of it linear in its layers. Numbers only (see between()). */
typedef struct {
    double forward_s, backward_s; /* a slot in the middle of a step */
    double last_s;                /* the last backward slot, with the reductions of gradients */
    double edge_s;                /* what slots at the begin of a step take more */
    double rest_s;                /* after the slots */
    double hop_s;                 /* a message to the next stage, or to the one before */
    sums slot[2], once;           /* forward, backward; of the step */
    double memory[PL_N_CLASSES];
} stage;

/* A stage with `few` layers and with one more. */
typedef struct {
    int few;
    stage a, b;
} stage_pair;

/* The program of all stages of a small plan, which those of its stages are built from. */
typedef struct {
    int n_stages, layers; /* of each stage */
    pl_plan plan;
    pl_mesh mesh;
    pl_program *program;
} whole;

/* Of one to FEW_LAYERS + 1 layers a stage; with a stage fewer two of them. */
enum { MAX_WHOLES = FEW_LAYERS + 3 };

struct pl_estimator {
    const pl_plan *plan;
    const pl_machine *machine;
    pl_additions more; /* in hand */
    stage_pair first, middle, last;
    int n_stages, n_microbatches;
    int64_t micro_batch;
    int n_streams;
    pl_axes axes[PL_MAX_STREAMS];
    int n_wholes; /* while programs are built */
    whole wholes[MAX_WHOLES];
};

typedef pl_estimator estimator;

static double *numbers_of(stage *s)
{
    return (double *)(void *)s;
}

/* x(l) from x(a) and x(a + 1). Buffers of communication and workspace are not of layers but of a
 * window that moves over them: as many as in the larger. */
static stage between(stage a, stage b, double layers_more)
{
    static const pl_class windows[] = {PL_COMM_BUFFER, PL_WORKSPACE};
    double *const x = numbers_of(&a), *const y = numbers_of(&b);

    for (int i = 0; i < 2; i++)
        a.memory[windows[i]] = b.memory[windows[i]] =
            fmax(a.memory[windows[i]], b.memory[windows[i]]);
    for (size_t i = 0; i < sizeof a / sizeof(double); i++)
        x[i] += layers_more * (y[i] - x[i]);
    return a;
}

static int stream_of(estimator *e, pl_axes axes)
{
    int i = 0;

    while (i < e->n_streams && e->axes[i] != axes)
        i++;
    if (i == e->n_streams) {
        PL_ASSERT(e->n_streams < PL_MAX_STREAMS);
        e->axes[e->n_streams++] = axes;
    }
    return i;
}

static void add_op(estimator *e, const pl_program *p, int i, const pl_op_prediction *o, sums *sum)
{
    if (!pl_kind_is_communication(p->ops[i].kind)) {
        sum->math_s += o->busy_s;
        sum->flops += o->flops;
        return;
    }
    const int c = stream_of(e, pl_op_group(p, &p->ops[i]));
    sum->comm_s += o->busy_s;
    sum->exposed_s += o->exposed_s;
    sum->stream[c][0] += o->busy_s;
    sum->stream[c][1] += o->exposed_s;
    sum->stream[c][2] += (double)o->wire_bytes;
}

/* Slot `slot` of a step, and when the next one begins. */
static double slot_time_s(const pl_stage_prediction *s, const pl_slot *slots, int n_slots, int k)
{
    double begin[2] = {0, s->slots_end_s};

    for (int i = 0; i < 2 && k + i < n_slots; i++)
        begin[i] = s->slot_begin_s[(slots[k + i].phase == PL_BACKWARD) * s->n_microbatches +
                                   slots[k + i].microbatch];
    return begin[1] - begin[0];
}

/* The steady slots: of the microbatch in the middle of three. */
static void read_slots(const estimator *e, const pl_stage_prediction *s, int n_stages, int index,
                       stage *out)
{
    const int m = s->n_microbatches, middle = m / 2;
    pl_slot slots[2 * FEW_MICROBATCHES];
    const int n = pl_pipeline_slots(e->plan->pipeline, n_stages, m, index, false, slots);

    for (int k = 0; k < n; k++)
        if (slots[k].microbatch == middle)
            *(slots[k].phase == PL_FORWARD ? &out->forward_s : &out->backward_s) =
                slot_time_s(s, slots, n, k);
    out->last_s = slot_time_s(s, slots, n, n - 1);
    out->edge_s = s->slots_end_s - m * out->forward_s - (m - 1) * out->backward_s - out->last_s;
    out->rest_s = s->step_s - s->slots_end_s;
}

static double hop_of(const pl_program *p, const pl_stage_prediction *s)
{
    double hop_s = 0;

    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == PL_KIND_SEND)
            hop_s = fmax(hop_s, s->ops[i].busy_s);
    return hop_s;
}

/* The plan with n_stages stages of `layers` each and m microbatches. */
static pl_plan small_plan(const estimator *e, int n_stages, int layers, int m)
{
    pl_plan plan = *e->plan;

    for (int i = 0; i < plan.spec.n; i++)
        if (plan.spec.strategy[i] == &pl_pp)
            plan.spec.degree[i] = n_stages;
    plan.model.n_layers = n_stages * layers;
    plan.micro_batch = e->micro_batch;
    plan.batch =
        e->micro_batch * m * pl_spec_degree(&plan.spec, "dp") * pl_spec_degree(&plan.spec, "fsdp");
    return plan;
}

static const whole *whole_of(estimator *e, int n_stages, int layers, int m)
{
    for (int i = 0; i < e->n_wholes; i++)
        if (e->wholes[i].n_stages == n_stages && e->wholes[i].layers == layers)
            return &e->wholes[i];
    PL_ASSERT(e->n_wholes < MAX_WHOLES);
    whole *w = &e->wholes[e->n_wholes++];
    *w =
        (whole){.n_stages = n_stages, .layers = layers, .plan = small_plan(e, n_stages, layers, m)};
    if (pl_spec_mesh(&w->plan.spec, &w->plan.model, &w->mesh) != PL_OK)
        PL_PANIC("%s", pl_status_message());
    w->program = pl_build_whole(&w->plan, &w->mesh);
    return w;
}

static void forget_wholes(estimator *e)
{
    for (int i = 0; i < e->n_wholes; i++)
        pl_program_destroy(e->wholes[i].program);
    e->n_wholes = 0;
}

/* Stage `index` of n_stages with `layers` layers, built and replayed alone. */
static stage replay_stage(estimator *e, int n_stages, int index, int layers)
{
    const int m = e->n_microbatches < FEW_MICROBATCHES ? e->n_microbatches : FEW_MICROBATCHES;
    const whole *w = whole_of(e, n_stages, layers, m);
    stage out;

    pl_program *p = pl_build_stage(&w->plan, w->program, index);
    pl_prediction *prediction = pl_predict((const pl_program *const *)&p, 1, e->machine);
    const pl_stage_prediction *s = &prediction->stages[0];

    memset(&out, 0, sizeof out);
    PL_ASSERT(s->n_microbatches == m);
    read_slots(e, s, n_stages, index, &out);
    out.hop_s = hop_of(p, s);
    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].phase == PL_UPDATE || p->ops[i].microbatch == PL_NO_MICROBATCH)
            add_op(e, p, i, &s->ops[i], &out.once);
        else if (p->ops[i].microbatch == m / 2)
            add_op(e, p, i, &s->ops[i], &out.slot[p->ops[i].phase == PL_BACKWARD]);
    for (int c = 0; c < PL_N_CLASSES; c++)
        out.memory[c] = (double)p->pool_bytes[c];
    pl_prediction_destroy(prediction);
    pl_program_destroy(p);
    return out;
}

/* How many microbatches' activations stage `index` holds at once. */
static int live_microbatches(const estimator *e, int n_stages, int index, int m)
{
    return e->plan->pipeline == PL_GPIPE || m < n_stages - index ? m : n_stages - index;
}

/* Memory with as many microbatches alive as there are in the first stage, from three and two. */
static void grow_memory(stage *three, const stage *two, int more)
{
    for (int c = 0; c < PL_N_CLASSES; c++)
        three->memory[c] += more * fmax(three->memory[c] - two->memory[c], 0);
}

/* Stages like stage `index`; memory as it is in that one. */
static stage_pair replay_pair(estimator *e, int index)
{
    const int n = e->n_stages < FEW_STAGES ? e->n_stages : FEW_STAGES,
              m = e->n_microbatches < FEW_MICROBATCHES ? e->n_microbatches : FEW_MICROBATCHES,
              at = index == 0                 ? 0
                   : index == e->n_stages - 1 ? n - 1
                                              : 1,
              layers = (int)pl_block_count(e->plan->model.n_layers, e->n_stages, index),
              more = live_microbatches(e, e->n_stages, index, e->n_microbatches) -
                     live_microbatches(e, n, at, m);
    stage_pair pair = {.few = layers < FEW_LAYERS ? layers : FEW_LAYERS};

    pair.a = replay_stage(e, n, at, pair.few);
    pair.b = replay_stage(e, n, at, pair.few + 1);
    if (more > 0 && index == 0 && n == FEW_STAGES && m == FEW_MICROBATCHES) {
        const stage a = replay_stage(e, n - 1, 0, pair.few),
                    b = replay_stage(e, n - 1, 0, pair.few + 1);

        grow_memory(&pair.a, &a, more);
        grow_memory(&pair.b, &b, more);
    }
    return pair;
}

/* What the program lacks, to the stage and to one layer more of it. */
static void add_formulas(const estimator *e, stage *s, stage *layer, int layers)
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
static void add_memory(const estimator *e, stage *s)
{
    const double p = e->n_stages, v = e->more.interleave;

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
    const pl_plan *plan = e->plan;
    const pl_keep keep = e->more.remat == PL_REMAT_BLOCK ? PL_KEEP_BLOCK : PL_KEEP_MATMULS;
    pl_architecture a;

    pl_model_config_describe(&plan->model, &a);
    return (double)e->micro_batch * (double)plan->seq * pl_architecture_kept_elements(&a, keep) *
           (double)pl_dtype_bytes(plan->dtype) / pl_spec_degree(&plan->spec, "tp");
}

/* Backward begins with the layer's forward pass. `layer` is what one more layer adds. */
static void repeat_forward(stage *s, const stage *layer, int layers)
{
    double *const again = (double *)(void *)&s->slot[1];
    const double *const forward = (const double *)(const void *)&layer->slot[0];

    s->backward_s += layers * layer->forward_s;
    s->last_s += layers * layer->forward_s;
    for (size_t i = 0; i < sizeof s->slot[1] / sizeof(double); i++)
        again[i] += layers * forward[i];
}

/* By formula: what is done again; memory holds what all layers keep, and the activations of one. */
static void rematerialise(const estimator *e, stage *s, const stage *layer, int layers, int live)
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

static stage stage_of_pair(const estimator *e, const stage_pair *pair, int index)
{
    const int layers = (int)pl_block_count(e->plan->model.n_layers, e->n_stages, index);
    stage out = between(pair->a, pair->b, layers - pair->few), layer = between(pair->a, pair->b, 1);

    for (size_t i = 0; i < sizeof layer / sizeof(double); i++)
        numbers_of(&layer)[i] -= numbers_of((stage *)&pair->a)[i];
    add_formulas(e, &out, &layer, layers);
    if (e->more.remat != PL_REMAT_NONE)
        rematerialise(e, &out, &layer, layers,
                      live_microbatches(e, e->n_stages, index, e->n_microbatches));
    add_memory(e, &out);
    return out;
}

pl_estimator *pl_estimator_create(const pl_plan *plan, const pl_machine *machine)
{
    pl_estimator *e = pl_alloc(sizeof *e);
    pl_mesh mesh;

    *e = (pl_estimator){
        .plan = plan, .machine = machine, .n_stages = pl_spec_degree(&plan->spec, "pp")};
    if (pl_spec_mesh(&plan->spec, &plan->model, &mesh) != PL_OK)
        PL_PANIC("%s", pl_status_message());
    const pl_batch batch = pl_plan_batch(plan, &mesh);
    e->n_microbatches = batch.n_microbatches;
    e->micro_batch = batch.micro_batch;
    e->first = e->last = replay_pair(e, 0);
    if (e->n_stages > 2)
        e->middle = replay_pair(e, 1);
    if (e->n_stages > 1)
        e->last = replay_pair(e, e->n_stages - 1);
    forget_wholes(e);
    return e;
}

void pl_estimator_destroy(pl_estimator *e)
{
    pl_free(e);
}

/* All stages: the first, the last, and those between, which differ only in their layers. */
static stage *estimate_all(const estimator *e)
{
    const int n = e->n_stages;
    stage *stages = pl_alloc((size_t)n * sizeof *stages);

    for (int s = 0; s < n; s++)
        stages[s] = stage_of_pair(e, s == 0 ? &e->first : s == n - 1 ? &e->last : &e->middle, s);
    return stages;
}

static void add_more(pl_estimator *e, const pl_additions *more)
{
    e->more = more != NULL ? *more : (pl_additions){.remat = PL_REMAT_NONE};
}

static void take_times(const estimator *e, const stage *stages, pl_stage_times *t)
{
    const size_t bytes = (size_t)e->n_stages * sizeof(double);

    *t = (pl_stage_times){.n_stages = e->n_stages,
                          .n_microbatches = e->n_microbatches,
                          .forward_s = pl_alloc(bytes),
                          .backward_s = pl_alloc(bytes),
                          .last_backward_s = pl_alloc(bytes),
                          .hop_s = pl_alloc(bytes)};
    for (int s = 0; s < e->n_stages; s++) {
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
    stage *stages = estimate_all(e);

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
static void add_up(const estimator *e, const stage *s, pl_estimate *out)
{
    const sums *parts[3] = {&s->slot[0], &s->slot[1], &s->once};
    double slowest_s = 0;

    out->n_streams = e->n_streams;
    for (int i = 0; i < 3; i++) {
        const double times = i < 2 ? e->n_microbatches : 1;

        out->math_s += times * parts[i]->math_s;
        out->flops += times * parts[i]->flops;
        out->comm_s += times * parts[i]->comm_s;
        out->exposed_s += times * parts[i]->exposed_s;
        for (int c = 0; c < e->n_streams; c++) {
            out->stream[c].axes = e->axes[c];
            out->stream[c].busy_s += times * parts[i]->stream[c][0];
            out->stream[c].exposed_s += times * parts[i]->stream[c][1];
            out->stream[c].wire_bytes += times * parts[i]->stream[c][2];
        }
    }
    for (int c = 0; c < e->n_streams; c++)
        slowest_s = fmax(slowest_s, out->stream[c].busy_s);
    out->forward_s = s->forward_s;
    out->backward_s = s->backward_s;
    out->lower_s = fmax(out->math_s, slowest_s);
    out->bubble_s = fmax(0, out->step_s - s->edge_s - s->rest_s - e->n_microbatches * s->forward_s -
                                (e->n_microbatches - 1) * s->backward_s - s->last_s);
    if (e->more.interleave > 1) {
        const double whole_s = out->bubble_s,
                     hops_s = fmin(2 * (e->n_stages - 1) * s->hop_s, whole_s);

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
    stage *stages = estimate_all(e);

    memset(out, 0, sizeof *out);
    take_times(e, stages, &times);
    out->step_s = pl_stage_times_step_s(&times, e->plan->pipeline);
    out->n_microbatches = e->n_microbatches;
    for (int s = 0; s < e->n_stages; s++) {
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
