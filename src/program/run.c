#include "config.h"

#include "src/program/run.h"

#include "kernels/elementwise.h"
#include "src/base/clock.h"
#include "src/base/panic.h"
#include "src/program/communicate.h"

#include <math.h>
#include <string.h>

/* One op bound to this rank's memory. */
typedef struct {
    pl_op_view view;       /* kernels */
    pl_schedule *schedule; /* communication */
    pl_transfer *transfer;
} bound_op;

struct pl_run {
    const pl_program *p;
    const pl_comms *comms;
    pl_engine *engine;
    pl_heap *heap;
    const pl_run *shared;
    char *pool[PL_N_CLASSES];
    size_t used[PL_N_CLASSES];
    bound_op *bound; /* [n_ops] */
    pl_op_measure *measures;
    pl_progress progress;
    bool takes_turns; /* with others, on its core */
    double stolen_s;  /* by progress of communication while kernels ran, since creation */
    bool communicates; /* else kernels need not stop for progress */
    pl_span_buffer *spans;
    int detail;
    int first_bad;
};

/* Time that counts for kernels. */
static double kernel_clock_s(const pl_run *run)
{
    return run->takes_turns ? pl_used_s() : pl_now_s();
}

/* What communication needs of this core while a kernel runs is not the kernel's time. */
static void progress_engine(void *data)
{
    pl_run *run = data;
    const double begin_s = kernel_clock_s(run);

    pl_engine_progress(run->engine);
    run->stolen_s += kernel_clock_s(run) - begin_s;
}

int pl_run_groups(const pl_program *p, pl_axes *sets)
{
    int n = 0;

    for (int i = 0; i < p->n_ops; i++) {
        bool known = !pl_kind_is_communication(p->ops[i].kind);
        const pl_axes axes = known ? 0 : pl_op_group(p, &p->ops[i]);

        for (int s = 0; s < n && !known; s++)
            known = sets[s] == axes;
        if (!known)
            sets[n++] = axes;
    }
    return n;
}

void *pl_run_data(const pl_run *run, int v)
{
    int64_t offset;
    const int at = pl_value_storage(run->p, v, run->comms->coords, &offset);
    const pl_value *value = &run->p->values[at];
    const int64_t bytes = offset * (int64_t)pl_value_element_bytes(run->p, v);

    PL_ASSERT(value->dtype == run->p->values[v].dtype);
    if (run->shared != NULL && value->persists && !value->is_input) {
        const int there = pl_value_find(run->shared->p, value->name);

        PL_ASSERT(there != PL_NONE);
        char *base = pl_run_data(run->shared, there);
        return base == NULL ? NULL : base + bytes;
    }
    return value->offset < 0 ? NULL : run->pool[value->class] + value->offset + bytes;
}

bool pl_run_has_non_finite(const pl_run *run, int v)
{
    const void *data = pl_run_data(run, v);
    const int64_t n = pl_local_elements(run->p, v, run->comms->coords);

    if (data == NULL || run->p->values[v].dtype == PL_I32)
        return false;
    return (run->p->values[v].dtype == PL_BF16 ? pl_first_non_finite_bf16(data, n)
                                               : pl_first_non_finite(data, n)) >= 0;
}

/* Remember how far into its pool an op reaches for value v. */
static void note_use(pl_run *run, int v)
{
    int64_t offset;
    const int at = pl_value_storage(run->p, v, run->comms->coords, &offset);
    const pl_value *value = &run->p->values[at];
    const size_t end = (size_t)value->offset + pl_value_room(run->p, at);

    PL_ASSERT(value->offset >= 0);
    if (end > run->used[value->class])
        run->used[value->class] = end;
}

static void bind_kernel(pl_run *run, int i, pl_array *in, pl_array *out)
{
    const pl_op *op = &run->p->ops[i];
    pl_op_view *view = &run->bound[i].view;

    view->in = in;
    view->out = out;
    pl_op_view_fill(view, run->p, op, run->comms->coords);
    for (int k = 0; k < op->n_in; k++)
        view->in[k].data = pl_run_data(run, op->in[k]);
    for (int k = 0; k < op->n_out; k++)
        view->out[k].data = pl_run_data(run, op->out[k]);
    if (op->scratch != PL_NONE)
        view->workspace = pl_run_data(run, op->scratch);
    view->progress = run->communicates ? &run->progress : NULL;
}

static void bind_communication(pl_run *run, int i)
{
    const pl_op *op = &run->p->ops[i];
    const int n = op->n_in + op->n_out;
    int *values = pl_alloc((size_t)(n + 1) * sizeof *values);
    void **arrays = pl_alloc((size_t)(n + 1) * sizeof *arrays);
    const int n_arrays = pl_op_arrays(op, values);
    const int named = op->n_out > 0 ? op->out[0] : op->in[0];

    for (int k = 0; k < n_arrays; k++)
        arrays[k] = pl_run_data(run, values[k]);
    run->bound[i].schedule = pl_op_schedule(run->p, op, run->comms->coords, NULL);
    run->bound[i].transfer = pl_engine_prepare(
        run->engine, run->bound[i].schedule, pl_comms_group(run->comms, pl_op_group(run->p, op)),
        op->tag, pl_op_dtype(run->p, op), arrays, n_arrays,
        op->scratch == PL_NONE ? NULL : pl_run_data(run, op->scratch),
        run->p->values[named].name);
    pl_free(values);
    pl_free(arrays);
}

static void bind_ops(pl_run *run)
{
    const pl_program *p = run->p;
    size_t n = 0;

    for (int i = 0; i < p->n_ops; i++)
        n += (size_t)(p->ops[i].n_in + p->ops[i].n_out);
    pl_array *arrays = pl_arena_alloc(p->arena, (n + 1) * sizeof *arrays);
    for (int i = 0; i < p->n_ops; i++) {
        const pl_op *op = &p->ops[i];

        for (int k = 0; k < op->n_in; k++)
            note_use(run, op->in[k]);
        for (int k = 0; k < op->n_out; k++)
            note_use(run, op->out[k]);
        if (op->scratch != PL_NONE)
            note_use(run, op->scratch);
        if (pl_kind_is_communication(op->kind)) {
            bind_communication(run, i);
        } else {
            bind_kernel(run, i, arrays, arrays + op->n_in);
            arrays += op->n_in + op->n_out;
        }
    }
}

pl_run *pl_run_create(const pl_program *p, const pl_comms *comms, pl_engine *engine,
                      pl_heap *heap, const pl_run *shared)
{
    pl_run *run = pl_alloc(sizeof *run);

    run->p = p;
    run->comms = comms;
    run->engine = engine;
    run->heap = heap;
    run->shared = shared;
    run->progress = (pl_progress){progress_engine, run};
    run->first_bad = PL_NONE;
    for (int c = 0; c < PL_N_CLASSES; c++)
        if (shared == NULL || c != PL_WEIGHT)
            run->pool[c] = pl_heap_alloc(heap, p->pool_bytes[c]);
    for (int i = 0; i < p->n_ops; i++)
        run->communicates = run->communicates || pl_kind_is_communication(p->ops[i].kind);
    run->bound = pl_alloc((size_t)(p->n_ops + 1) * sizeof *run->bound);
    run->measures = pl_alloc((size_t)(p->n_ops + 1) * sizeof *run->measures);
    bind_ops(run);
    return run;
}

void pl_run_set_turns(pl_run *run, bool takes_turns)
{
    run->takes_turns = takes_turns;
}

void pl_run_destroy(pl_run *run)
{
    if (run == NULL)
        return;
    for (int i = 0; i < run->p->n_ops; i++)
        if (run->bound[i].schedule != NULL)
            pl_schedule_destroy(run->bound[i].schedule);
    for (int c = 0; c < PL_N_CLASSES; c++)
        if (run->pool[c] != NULL)
            pl_heap_free(run->heap, run->pool[c]);
    pl_free(run->bound);
    pl_free(run->measures);
    pl_free(run);
}

void pl_run_set_scalar(pl_run *run, const char *name, float x)
{
    for (int v = 0; v < run->p->n_values; v++)
        if (strcmp(run->p->values[v].name, name) == 0) {
            float *data = pl_run_data(run, v);

            if (data != NULL)
                *data = x;
        }
}

float pl_run_scalar(const pl_run *run, const char *name)
{
    const int v = pl_value_find(run->p, name);

    PL_ASSERT(v != PL_NONE && pl_run_data(run, v) != NULL);
    return *(const float *)pl_run_data(run, v);
}

int pl_run_first_bad(const pl_run *run)
{
    return run->first_bad;
}

const pl_op_measure *pl_run_measures(const pl_run *run)
{
    return run->measures;
}

void pl_run_reset(pl_run *run)
{
    memset(run->measures, 0, (size_t)run->p->n_ops * sizeof *run->measures);
}

void pl_run_trace(pl_run *run, pl_span_buffer *spans, int detail)
{
    run->spans = spans;
    run->detail = detail;
}

/* Look for non-finite numbers in what op i has just made. */
static void check_outputs(pl_run *run, int i)
{
    const pl_op *op = &run->p->ops[i];

    for (int k = 0; k < op->n_out && run->first_bad == PL_NONE; k++) {
        const int v = op->out[k];

        if (pl_run_has_non_finite(run, v))
            run->first_bad = v;
    }
}

static void record(pl_run *run, pl_track track, int op, double begin_s, double end_s)
{
    if (run->spans != NULL)
        pl_span_add(run->spans, track, op, (int16_t)run->detail, begin_s, end_s);
}

static void run_kernel(pl_run *run, int i, double begin_s)
{
    pl_op_measure *m = &run->measures[i];
    const double stolen_s = run->stolen_s, from_s = run->takes_turns ? pl_used_s() : begin_s;

    pl_kind_of(run->p->ops[i].kind)->run(&run->bound[i].view);
    const double used_s = kernel_clock_s(run) - from_s;
    if (run->takes_turns)
        m->turns_s += fmax(pl_now_s() - begin_s - used_s, 0);
    pl_engine_progress(run->engine);
    const double end_s = pl_now_s();
    m->calls++;
    m->busy_s += used_s - (run->stolen_s - stolen_s);
    record(run, PL_TRACK_COMPUTE, i, begin_s, end_s);
}

/* Starting progresses too, and may give the core to ranks that share it: that time is exposed. */
static void start(pl_run *run, int i, double begin_s)
{
    pl_engine_start(run->engine, run->bound[i].transfer);
    const double end_s = pl_now_s();
    run->measures[i].exposed_s += end_s - begin_s;
    record(run, PL_TRACK_COMPUTE, i, begin_s, end_s);
}

static void wait_for(pl_run *run, int i, double begin_s)
{
    pl_op_measure *m = &run->measures[i];
    pl_transfer *t = run->bound[i].transfer;

    pl_engine_wait(run->engine, t);
    const double end_s = pl_now_s();
    m->calls++;
    m->busy_s += pl_transfer_duration_s(t);
    m->exposed_s += end_s - begin_s;
    record(run, PL_TRACK_COMPUTE, i, begin_s, end_s);
    record(run, PL_TRACK_COMM, i, pl_transfer_begin_s(t), pl_transfer_end_s(t));
}

void pl_run_actions(pl_run *run, int first, int last, bool check)
{
    for (int a = first; a < last; a++) {
        const int i = run->p->actions[a].op;
        const double begin_s = pl_now_s();

        switch (run->p->actions[a].kind) {
        case PL_ACTION_RUN:
            run_kernel(run, i, begin_s);
            break;
        case PL_ACTION_START:
            start(run, i, begin_s);
            continue; /* outputs are not there yet */
        case PL_ACTION_WAIT:
            wait_for(run, i, begin_s);
            break;
        }
        if (check && run->first_bad == PL_NONE)
            check_outputs(run, i);
    }
}

void pl_run_kernels(pl_run *run)
{
    for (int a = 0; a < run->p->n_actions; a++) {
        const int i = run->p->actions[a].op;

        if (run->p->actions[a].kind == PL_ACTION_RUN && run->p->ops[i].phase != PL_UPDATE)
            run_kernel(run, i, pl_now_s());
    }
}

void pl_run_communication(pl_run *run, pl_axes within)
{
    for (int a = 0; a < run->p->n_actions; a++) {
        const pl_action *action = &run->p->actions[a];
        const pl_op *op = &run->p->ops[action->op];

        if (action->kind == PL_ACTION_RUN ||
            (within != 0 && (pl_op_group(run->p, op) & ~within) != 0))
            continue;
        if (action->kind == PL_ACTION_START)
            start(run, action->op, pl_now_s());
        else
            wait_for(run, action->op, pl_now_s());
    }
}

int64_t pl_run_sent_bytes(const pl_run *run, pl_axes axes)
{
    int64_t bytes = 0;

    for (int i = 0; i < run->p->n_ops; i++)
        if (run->bound[i].transfer != NULL && pl_op_group(run->p, &run->p->ops[i]) == axes)
            bytes += pl_transfer_sent_bytes(run->bound[i].transfer);
    return bytes;
}

size_t pl_run_used_bytes(const pl_run *run, pl_class class)
{
    return run->used[class];
}
