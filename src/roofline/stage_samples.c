#include "config.h"

#include "src/roofline/stage_samples.h"

#include "src/base/block.h"
#include "src/base/panic.h"
#include "src/program/communicate.h"

#include <math.h>
#include <string.h>

enum { FEW_STAGES = 3, FEW_MICROBATCHES = 3 };

double *pl_stage_numbers(pl_stage_sample *s)
{
    return (double *)(void *)s;
}

pl_stage_sample pl_stage_between(pl_stage_sample a, pl_stage_sample b, double layers_more)
{
    static const pl_class windows[] = {PL_COMM_BUFFER, PL_WORKSPACE};
    double *const x = pl_stage_numbers(&a), *const y = pl_stage_numbers(&b);

    for (int i = 0; i < 2; i++)
        a.memory[windows[i]] = b.memory[windows[i]] =
            fmax(a.memory[windows[i]], b.memory[windows[i]]);
    for (size_t i = 0; i < sizeof a / sizeof(double); i++)
        x[i] += layers_more * (y[i] - x[i]);
    return a;
}

static int stream_of(pl_stage_sampler *of, pl_axes axes)
{
    int i = 0;

    while (i < of->n_streams && of->axes[i] != axes)
        i++;
    if (i == of->n_streams) {
        PL_ASSERT(of->n_streams < PL_MAX_STREAMS);
        of->axes[of->n_streams++] = axes;
    }
    return i;
}

static void add_op(pl_stage_sampler *of, const pl_program *p, int i, const pl_op_prediction *o,
                   pl_stage_sums *sum)
{
    if (!pl_kind_is_communication(p->ops[i].kind)) {
        sum->math_s += o->busy_s + o->turns_s;
        sum->flops += o->flops;
        return;
    }
    const int c = stream_of(of, pl_op_group(p, &p->ops[i]));
    sum->comm_s += o->alone_s;
    sum->exposed_s += o->exposed_s;
    sum->stream[c][0] += o->alone_s;
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
static void read_slots(const pl_stage_sampler *of, const pl_stage_prediction *s, int n_stages,
                       int index, pl_stage_sample *out)
{
    const int m = s->n_microbatches, middle = m / 2;
    pl_slot slots[2 * FEW_MICROBATCHES];
    const int n = pl_pipeline_slots(of->plan->pipeline, n_stages, m, index, false, slots);

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
            hop_s = fmax(hop_s, s->ops[i].alone_s);
    return hop_s;
}

/* The plan with n_stages stages of `layers` each and m microbatches. */
static pl_plan small_plan(const pl_stage_sampler *of, int n_stages, int layers, int m)
{
    pl_plan plan = *of->plan;

    for (int i = 0; i < plan.spec.n; i++)
        if (plan.spec.strategy[i] == &pl_pp)
            plan.spec.degree[i] = n_stages;
    plan.model.n_layers = n_stages * layers;
    plan.micro_batch = of->micro_batch;
    plan.batch =
        of->micro_batch * m * pl_spec_degree(&plan.spec, "dp") * pl_spec_degree(&plan.spec, "fsdp");
    return plan;
}

static const pl_stage_whole *whole_of(pl_stage_sampler *of, int n_stages, int layers, int m)
{
    for (int i = 0; i < of->n_wholes; i++)
        if (of->wholes[i].n_stages == n_stages && of->wholes[i].layers == layers)
            return &of->wholes[i];
    PL_ASSERT(of->n_wholes < PL_MAX_WHOLES);
    pl_stage_whole *w = &of->wholes[of->n_wholes++];
    *w = (pl_stage_whole){
        .n_stages = n_stages, .layers = layers, .plan = small_plan(of, n_stages, layers, m)};
    if (pl_spec_mesh(&w->plan.spec, &w->plan.model, &w->mesh) != PL_OK)
        PL_PANIC("%s", pl_status_message());
    w->program = pl_build_whole(&w->plan, &w->mesh);
    return w;
}

void pl_forget_programs(pl_stage_sampler *of)
{
    for (int i = 0; i < of->n_wholes; i++)
        pl_program_destroy(of->wholes[i].program);
    of->n_wholes = 0;
}

/* Stage `index` of n_stages with `layers` layers, built and replayed alone. */
static pl_stage_sample replay_stage(pl_stage_sampler *of, int n_stages, int index, int layers)
{
    const int m = of->n_microbatches < FEW_MICROBATCHES ? of->n_microbatches : FEW_MICROBATCHES;
    const pl_stage_whole *w = whole_of(of, n_stages, layers, m);
    pl_stage_sample out;

    pl_program *p = pl_build_stage(&w->plan, w->program, index);
    pl_prediction *prediction = pl_predict((const pl_program *const *)&p, 1, of->machine);
    const pl_stage_prediction *s = &prediction->stages[0];

    memset(&out, 0, sizeof out);
    PL_ASSERT(s->n_microbatches == m);
    read_slots(of, s, n_stages, index, &out);
    out.hop_s = hop_of(p, s);
    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].phase == PL_UPDATE || p->ops[i].microbatch == PL_NO_MICROBATCH)
            add_op(of, p, i, &s->ops[i], &out.once);
        else if (p->ops[i].microbatch == m / 2)
            add_op(of, p, i, &s->ops[i], &out.slot[p->ops[i].phase == PL_BACKWARD]);
    for (int c = 0; c < PL_N_CLASSES; c++)
        out.memory[c] = (double)p->pool_bytes[c];
    pl_prediction_destroy(prediction);
    pl_program_destroy(p);
    return out;
}

int pl_live_microbatches(const pl_stage_sampler *of, int n_stages, int index, int m)
{
    return of->plan->pipeline == PL_GPIPE || m < n_stages - index ? m : n_stages - index;
}

/* Memory with as many microbatches alive as there are in the first stage, from three and two. */
static void grow_memory(pl_stage_sample *three, const pl_stage_sample *two, int more)
{
    for (int c = 0; c < PL_N_CLASSES; c++)
        three->memory[c] += more * fmax(three->memory[c] - two->memory[c], 0);
}

pl_stage_pair pl_sample_stage(pl_stage_sampler *of, int index)
{
    const int n = of->n_stages < FEW_STAGES ? of->n_stages : FEW_STAGES,
              m = of->n_microbatches < FEW_MICROBATCHES ? of->n_microbatches : FEW_MICROBATCHES,
              at = index == 0                  ? 0
                   : index == of->n_stages - 1 ? n - 1
                                               : 1,
              layers = (int)pl_block_count(of->plan->model.n_layers, of->n_stages, index),
              more = pl_live_microbatches(of, of->n_stages, index, of->n_microbatches) -
                     pl_live_microbatches(of, n, at, m);
    pl_stage_pair pair = {.few = layers < PL_FEW_LAYERS ? layers : PL_FEW_LAYERS};

    pair.a = replay_stage(of, n, at, pair.few);
    pair.b = replay_stage(of, n, at, pair.few + 1);
    if (more > 0 && index == 0 && n == FEW_STAGES && m == FEW_MICROBATCHES) {
        const pl_stage_sample a = replay_stage(of, n - 1, 0, pair.few),
                              b = replay_stage(of, n - 1, 0, pair.few + 1);

        grow_memory(&pair.a, &a, more);
        grow_memory(&pair.b, &b, more);
    }
    return pair;
}
