#include "config.h"

#include "src/roofline/kernels.h"

#include "collectives/engine.h"
#include "src/base/bf16.h"
#include "src/base/clock.h"
#include "src/base/finish.h"
#include "src/base/panic.h"
#include "src/mesh/comms.h"
#include "src/model/optimizer.h"
#include "src/model/params.h"
#include "src/model/transformer.h"
#include "src/program/run.h"
#include "src/roofline/build.h"
#include "src/roofline/kernel_model.h"
#include "src/roofline/kernel_samples.h"

#include <math.h>
#include <string.h>

enum { MOST_REPEATS = 9, LEAST_REPEATS = 3, LEAST_TURNS = 1, QUICK_STEPS = 3, MOST_ROUNDS = 2 };

/* A step takes its repeats of a round, within limits, from so much time. */
static const double budget_s = 0.2;

/* Products have the most samples. In eight calibrations of a calm machine the terms of none were off
 * by more than 2.4% in the median, in one that something disturbed for seconds by 6 to 9%. */
static const double calm_residual = 0.04;

/* Where each rank has a core, where they take turns, or both. */
typedef enum { BOTH, OWN_CORE, TURNS } place;

/* Every second step keeps additions apart, to have some of them. Shapes apart from each other and
 * from the presets: widths, lengths, working sets from L2 to far beyond L3, rows that are pages
 * apart and rows that are not, so that the terms of the model can be told from each other. Where ranks take turns there are many: they are left thin slices of many
 * tokens, or microbatches of few, whose gradients are added to what comes from memory. */
static const struct {
    int n_layers;
    int64_t d_model, n_heads, n_kv_heads, head_dim, d_ff, vocab, seq, batch, micro_batch;
    place place; /* the dearest: not where ranks take turns */
} steps[] = {
    {2, 80, 4, 2, 24, 208, 160, 40, 2, 0, BOTH},
    {3, 160, 5, 5, 32, 416, 288, 144, 3, 0, BOTH},
    {2, 320, 5, 1, 64, 896, 200, 208, 5, 0, BOTH},
    {2, 384, 6, 2, 64, 1024, 512, 112, 2, 0, BOTH},
    {2, 448, 7, 7, 64, 1280, 320, 320, 4, 0, OWN_CORE},
    {2, 768, 12, 2, 64, 2048, 256, 96, 5, 0, OWN_CORE},
    {1, 896, 7, 7, 128, 2560, 640, 192, 2, 0, OWN_CORE},
    {4, 224, 7, 1, 32, 640, 256, 328, 5, 0, BOTH},
    {1, 1024, 16, 4, 64, 3072, 512, 160, 1, 0, OWN_CORE},
    {1, 96, 3, 3, 32, 64, 600, 240, 128, 0, TURNS},
    {1, 240, 5, 1, 48, 104, 64, 200, 96, 0, TURNS},
    {2, 576, 9, 3, 64, 1536, 192, 56, 8, 1, TURNS},
    {1, 896, 7, 7, 128, 1792, 320, 96, 2, 0, TURNS},
};
enum { N_STEPS = sizeof steps / sizeof steps[0] };

enum { MOST_DRIFTS = MOST_ROUNDS * N_STEPS * MOST_REPEATS };

/* How far the ranks drift apart: in each repetition of a step, and in all of a step together. */
typedef struct {
    int n_repeats;
    double repeat_s[MOST_DRIFTS]; /* variance over time */
    int n_steps;
    double slower[MOST_ROUNDS * N_STEPS]; /* variance over squared time */
} drifts;

/* One step, ready to run. */
typedef struct {
    pl_plan plan;
    pl_mesh mesh;
    pl_program *program;
    pl_comms comms;
    pl_engine *engine;
    pl_run *run;
} bench;

/* What weights, and masters of weights, hold does not matter, as long as it is small and no zeros.
 */
static void fill_array(void *data, int64_t n, pl_dtype dtype)
{
    uint32_t x = 1;

    for (int64_t i = 0; i < n; i++) {
        x = 1664525 * x + 1013904223;
        const float value = (float)((double)x / 4294967296.0 - 0.5) / 16;

        if (dtype == PL_BF16)
            ((uint16_t *)data)[i] = pl_bf16_of_f32(value);
        else
            ((float *)data)[i] = value;
    }
}

static void fill_weights(bench *b)
{
    const pl_coords origin = {{0}};

    for (int v = 0; v < b->program->n_values; v++) {
        const pl_value *value = &b->program->values[v];
        void *data = pl_run_data(b->run, v);
        const bool is_master =
            strncmp(value->name, PL_MASTER_PREFIX, strlen(PL_MASTER_PREFIX)) == 0;

        if ((pl_is_weight(value) || is_master) && data != NULL)
            fill_array(data, pl_local_elements(b->program, v, origin), value->dtype);
    }
}

/* Inputs that the host fills; all ids differ, so that no row is read from cache by chance. */
static void fill_inputs(bench *b)
{
    const pl_coords origin = {{0}};
    const int64_t vocab = b->plan.model.vocab;

    pl_params_fill_constants(b->program, b->run, origin, &b->plan.model);
    for (int v = 0; v < b->program->n_values; v++) {
        const char *name = b->program->values[v].name;
        int32_t *ids = pl_run_data(b->run, v);

        if (strcmp(name, PL_NAME_TOKENS) != 0 && strcmp(name, PL_NAME_TARGETS) != 0)
            continue;
        for (int64_t i = 0; i < pl_local_elements(b->program, v, origin); i++)
            ids[i] = (int32_t)(i * 7 % vocab);
    }
    pl_run_set_scalar(b->run, PL_NAME_SCALE, 1.0f / (float)(b->plan.batch * b->plan.seq));
    pl_run_set_scalar(b->run, PL_NAME_CLIP, 1);
    pl_run_set_scalar(b->run, PL_NAME_LR, 0);
    pl_run_set_scalar(b->run, PL_NAME_BIAS1, 1);
    pl_run_set_scalar(b->run, PL_NAME_BIAS2, 1);
}

/* Where ranks take turns all take that many times as long: so much less of the batch does. */
static int64_t batch_of(int i, double ranks_per_core)
{
    const double batch = ceil((double)steps[i].batch / fmax(ranks_per_core, 1));

    return batch > 1 ? (int64_t)batch : 1;
}

static void bench_create(int i, pl_dtype dtype, double ranks_per_core, pl_heap *heap, bench *b)
{
    const pl_model_config model = {.n_layers = steps[i].n_layers,
                                   .d_model = steps[i].d_model,
                                   .n_heads = steps[i].n_heads,
                                   .n_kv_heads = steps[i].n_kv_heads,
                                   .head_dim = steps[i].head_dim,
                                   .d_ff = steps[i].d_ff,
                                   .vocab = steps[i].vocab,
                                   .max_seq = steps[i].seq,
                                   .rms_eps = 1e-5,
                                   .rope_theta = 10000};
    pl_axes *sets;

    b->plan = (pl_plan){.model = model,
                        .adamw = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1},
                        .batch = batch_of(i, ranks_per_core),
                        .micro_batch = steps[i].micro_batch,
                        .seq = steps[i].seq,
                        .dtype = dtype,
                        .keeps_additions = i % 2 != 0};
    PL_ASSERT(pl_spec_parse("dp:1", &b->plan.spec) == PL_OK);
    PL_ASSERT(pl_spec_mesh(&b->plan.spec, &model, &b->mesh) == PL_OK);
    b->program = pl_build(&b->plan, &b->mesh, 0);
    sets = pl_alloc((size_t)(b->program->n_ops + 1) * sizeof *sets);
    pl_comms_create(MPI_COMM_SELF, &b->mesh, sets, pl_run_groups(b->program, sets), &b->comms);
    pl_free(sets);
    b->engine = pl_engine_create(heap);
    b->run = pl_run_create(b->program, &b->comms, b->engine, heap, NULL);
    fill_weights(b);
    fill_inputs(b);
}

static void bench_destroy(bench *b)
{
    pl_run_destroy(b->run);
    pl_engine_destroy(b->engine);
    pl_comms_destroy(&b->comms);
    pl_program_destroy(b->program);
}

/* What the process has used of its core, where cores are shared; else the time. */
static double used_s(bool shares_core)
{
    return shares_core ? pl_used_s() : pl_now_s();
}

/* Whether the ranks of a training would begin action a of a step together: the gradients, and their
 * norm, are sums over all of them. From there on all go through memory, and it serves a rank faster
 * while others still compute. */
static bool is_met_at(const pl_program *p, int a)
{
    const pl_op *op = &p->ops[p->actions[a].op], *before = a > 0 ? &p->ops[p->actions[a - 1].op] : op;

    return (op->phase == PL_UPDATE && before->phase != PL_UPDATE) ||
           (op->kind == PL_ADAMW && before->kind != PL_ADAMW);
}

/* One step; each action's time. */
static void run_once(const pl_measure *m, bench *b, double ranks_per_core, double *time_s)
{
    const bool shares_core = ranks_per_core > 1;

    for (int a = 0; a < b->program->n_actions; a++) {
        if (!shares_core && is_met_at(b->program, a))
            pl_measure_meet(m);
        const double begin_s = used_s(shares_core);

        pl_run_actions(b->run, a, a + 1, false);
        time_s[a] = (used_s(shares_core) - begin_s) * (shares_core ? ranks_per_core : 1);
    }
}

static void reduce(MPI_Comm comm, double *x, int n, MPI_Op op)
{
    pl_mpi_all_reduce(comm, x, n, MPI_DOUBLE, op);
}

/* As many as the budget allows, by the time of one. */
static int count_repeats(const pl_measure *m, bool shares_core, double once_s)
{
    const int least = shares_core ? LEAST_TURNS : LEAST_REPEATS;

    reduce(m->comm, &once_s, 1, MPI_MAX);
    const double n = budget_s / once_s;
    if (m->quick)
        return 1;
    return n > MOST_REPEATS ? MOST_REPEATS : n < least ? least : (int)n;
}

/* Sums over n actions: the mean over the ranks of what each took, and its variance. */
typedef struct {
    double time_s, variance;
} over_ranks;

static over_ranks compare_ranks(const pl_measure *m, const double *time_s, int n)
{
    int n_ranks;

    PL_MPI(MPI_Comm_size(m->comm, &n_ranks));
    const double ranks = n_ranks;
    double *sum = pl_alloc(2 * (size_t)n * sizeof *sum);
    over_ranks all = {0};

    for (int a = 0; a < n; a++) {
        sum[a] = time_s[a] / ranks;
        sum[n + a] = time_s[a] * time_s[a] / ranks;
    }
    reduce(m->comm, sum, 2 * n, MPI_SUM);
    for (int a = 0; a < n; a++) {
        all.time_s += sum[a];
        if (ranks > 1)
            all.variance += fmax(sum[n + a] - sum[a] * sum[a], 0) * ranks / (ranks - 1);
    }
    pl_free(sum);
    return all;
}

/* Of one repetition of a step: as if what each action takes were drawn anew for each rank. */
static void note_jitter(const pl_measure *m, const double *time_s, int n, drifts *d)
{
    const over_ranks actions = compare_ranks(m, time_s, n);

    d->repeat_s[d->n_repeats++] = actions.variance / actions.time_s;
}

/* Of all repetitions of a step, which lie behind the last n_repeats of repeat_s: what the sum of all
 * actions differs by beyond that. */
static void note_slower(const pl_measure *m, const double *steps_s, int n_repeats, drifts *d)
{
    double sum_s = 0, jitter_s = 0;

    for (int r = 0; r < n_repeats; r++) {
        sum_s += steps_s[r];
        jitter_s += d->repeat_s[d->n_repeats - 1 - r] / n_repeats;
    }
    const over_ranks all = compare_ranks(m, &sum_s, 1);
    const double variance = fmax(all.variance - jitter_s * all.time_s, 0);
    d->slower[d->n_steps++] = variance / (all.time_s * all.time_s);
}

/* A step is a sum of many actions, each late now and then: its middle lies above the sum of their
 * middles. By how much. */
static double sum_over_medians(const double *step_s, int n_repeats, const double *median_s, int n)
{
    double sorted[MOST_REPEATS], sum_s = 0;

    memcpy(sorted, step_s, (size_t)n_repeats * sizeof *sorted);
    for (int a = 0; a < n; a++)
        sum_s += median_s[a];
    return fmax(pl_median(sorted, n_repeats) / sum_s, 1);
}

/* Each action's time: median of repeats, by as much more as steps take more than those, mean of the
 * ranks of a host, most of the hosts. */
static void measure_actions(const pl_measure *m, bench *b, double ranks_per_core, double *time_s,
                            drifts *d)
{
    const int n = b->program->n_actions;
    double *all_s = pl_alloc((size_t)n * MOST_REPEATS * sizeof *all_s);
    double steps_s[MOST_REPEATS];
    int n_repeats = LEAST_REPEATS;

    run_once(m, b, ranks_per_core, time_s); /* touches memory */
    for (int r = 0; r < n_repeats; r++) {
        double step_s = 0;

        pl_measure_meet(m);
        run_once(m, b, ranks_per_core, all_s + (int64_t)r * n);
        for (int a = 0; a < n; a++)
            step_s += all_s[(int64_t)r * n + a];
        if (r == 0)
            n_repeats = count_repeats(m, ranks_per_core > 1, step_s);
        steps_s[r] = step_s;
        note_jitter(m, all_s + (int64_t)r * n, n, d);
    }
    note_slower(m, steps_s, n_repeats, d);
    for (int a = 0; a < n; a++) {
        double one_s[MOST_REPEATS];

        for (int r = 0; r < n_repeats; r++)
            one_s[r] = all_s[(int64_t)r * n + a];
        time_s[a] = pl_median(one_s, n_repeats);
    }
    const double late = sum_over_medians(steps_s, n_repeats, time_s, n);
    for (int a = 0; a < n; a++)
        time_s[a] *= late / m->ranks_on_host;
    reduce(m->host_comm, time_s, n, MPI_SUM);
    reduce(m->comm, time_s, n, MPI_MAX);
    pl_free(all_s);
}

static void add_samples(pl_kernel_samples *s, const bench *b, const pl_machine *machine,
                        const double *time_s)
{
    const pl_coords origin = {{0}};
    const pl_program *p = b->program;
    pl_reuse *reuse = pl_alloc((size_t)(p->n_ops + 1) * sizeof *reuse);

    pl_reuse_find(p, origin, machine->near_bytes, machine->mid_bytes, reuse);
    for (int a = 0; a < p->n_actions; a++) {
        const int i = p->actions[a].op;
        double terms[PL_N_KERNEL_TERMS];
        char name[PL_KERNEL_NAME];

        if (p->actions[a].kind != PL_ACTION_RUN)
            continue;
        const pl_op_cost cost = pl_op_cost_at(p, &p->ops[i], origin);
        pl_kernel_name(p, &p->ops[i], &cost, name);
        pl_kernel_terms(&cost, &reuse[i], terms);
        pl_kernel_samples_add(s, name, terms, time_s[a]);
    }
    pl_free(reuse);
}

/* The residual of the products that the machine has had terms of since it had n_before kernels. */
static double worst_product(const pl_machine *machine, int n_before)
{
    double worst = 0;

    for (int i = n_before; i < machine->n_kernels; i++)
        if (strncmp(machine->kernel[i].name, "einsum", strlen("einsum")) == 0)
            worst = fmax(worst, machine->kernel[i].residual);
    return worst;
}

static void measure_step(const pl_measure *m, int i, pl_dtype dtype, pl_heap *heap,
                         const pl_machine *machine, pl_kernel_samples *s, drifts *d)
{
    bench b;

    bench_create(i, dtype, machine->ranks_per_core, heap, &b);
    double *time_s = pl_alloc((size_t)(b.program->n_actions + 1) * sizeof *time_s);
    measure_actions(m, &b, machine->ranks_per_core, time_s, d);
    add_samples(s, &b, machine, time_s);
    pl_free(time_s);
    bench_destroy(&b);
}

void pl_measure_kernels(const pl_measure *m, pl_dtype dtype, pl_heap *heap, pl_machine *machine)
{
    const place elsewhere = machine->ranks_per_core > 1 ? OWN_CORE : TURNS;
    const int n_steps = m->quick ? QUICK_STEPS : N_STEPS;
    /* where ranks take turns there is no time for more, and nothing fits so well */
    const int n_rounds = m->quick || machine->ranks_per_core > 1 ? 1 : MOST_ROUNDS;
    const int n_before = machine->n_kernels;
    pl_kernel_samples s = {0};
    drifts d = {0};

    for (int round = 0; round < n_rounds; round++) {
        pl_kernel_samples_begin_round(&s);
        for (int i = 0; i < n_steps; i++)
            if (steps[i].place != elsewhere)
                measure_step(m, i, dtype, heap, machine, &s, &d);
        machine->n_kernels = n_before;
        pl_kernel_samples_fit(&s, machine);
        if (worst_product(machine, n_before) <= calm_residual)
            break;
    }
    if (dtype == PL_F32) {
        machine->jitter_s = pl_median(d.repeat_s, d.n_repeats);
        machine->drift = sqrt(pl_median(d.slower, d.n_steps));
    }
    pl_kernel_samples_free(&s);
}
