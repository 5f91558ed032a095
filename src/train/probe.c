#include "config.h"

#include "src/train/probe.h"

#include "src/base/clock.h"
#include "src/base/finish.h"
#include "src/base/panic.h"
#include "src/base/sample.h"
#include "src/program/communicate.h"

#include <math.h>
#include <stddef.h>

/* Fewer than these have no middle half. */
enum { FEW = 5 };

static pl_plan plan_of(const pl_session *s, const pl_probe *probe)
{
    pl_plan plan = s->plan;

    plan.spec = probe->spec;
    plan.batch = probe->batch;
    plan.seq = probe->seq;
    plan.micro_batch = probe->micro_batch;
    return plan;
}

static bool counts(const pl_program *p, const pl_op *op, pl_axes within)
{
    return within == 0 || (pl_op_group(p, op) & ~within) == 0;
}

static pl_axes axes_of(const pl_probe *probe, const pl_mesh *mesh)
{
    return probe->over != NULL ? pl_mesh_family(mesh, probe->over) : 0;
}

/* One stage of n_stages: its share of their mean. */
static void add_stage(const pl_program *p, const pl_stage_prediction *stage, int n_stages,
                      const pl_probe *probe, pl_step_times *t)
{
    const pl_axes within = axes_of(probe, p->mesh);

    for (int i = 0; i < p->n_ops; i++) {
        const pl_op *op = &p->ops[i];
        const pl_op_prediction *one = &stage->ops[i];

        if (pl_kind_is_communication(op->kind))
            t->comms_s += counts(p, op, within) ? one->alone_s / n_stages : 0;
        else if (op->phase == PL_UPDATE)
            t->update_s += (one->busy_s + one->turns_s) / n_stages;
        else
            t->kernels_s += (probe->apart ? one->alone_s : one->busy_s + one->turns_s) / n_stages;
    }
}

void pl_probe_predict(const pl_session *s, pl_probe *probe, double *memory_bytes)
{
    const pl_plan plan = plan_of(s, probe);
    const int n = pl_spec_degree(&plan.spec, "pp");
    double most_busy_s = 0;
    pl_program **stages = pl_alloc((size_t)n * sizeof *stages);
    pl_mesh mesh;

    PL_ASSERT(pl_spec_mesh(&plan.spec, &plan.model, &mesh) == PL_OK);
    pl_build_stages(&plan, &mesh, stages);
    pl_prediction *p = pl_predict((const pl_program *const *)stages, n, &s->machine);
    probe->predicted = (pl_step_times){.step_s = p->step_s};
    for (int i = 0; i < n; i++) {
        add_stage(stages[i], &p->stages[i], n, probe, &probe->predicted);
        most_busy_s = fmax(most_busy_s, p->stages[i].step_s - p->stages[i].exposed_s);
    }
    probe->predicted.exposed_s = p->step_s - most_busy_s;
    *memory_bytes = 0;
    for (int c = 0; c < PL_N_CLASSES; c++)
        *memory_bytes += (double)p->memory_bytes[c];
    pl_prediction_destroy(p);
    for (int i = 0; i < n; i++)
        pl_program_destroy(stages[i]);
    pl_free(stages);
}

/* What ranks measured becomes the mean over them; the step the slowest's, what is exposed what is
 * left of that beside the rank that waits least. */
static void agree_on(const pl_session *s, pl_step_times *t)
{
    const double n = (double)pl_mesh_size(&s->mesh);
    double sum[3] = {t->kernels_s / n, t->update_s / n, t->comms_s / n};
    double most[2] = {t->step_s, t->step_s - t->exposed_s};

    pl_session_sum(s, sum, 3);
    pl_session_max(s, most, 2);
    t->kernels_s = sum[0];
    t->update_s = sum[1];
    t->comms_s = sum[2];
    t->step_s = most[0];
    t->exposed_s = most[0] - most[1];
}

/* A member's quantile over rounds. */
static double quantile(const pl_probe *probe, size_t member, double p)
{
    double x[PL_PROBE_MOST_STEPS];

    for (int i = 0; i < probe->n_rounds; i++)
        x[i] = *(const double *)(const void *)((const char *)&probe->round[i] + member);
    return pl_bench_quantile(x, probe->n_rounds, p);
}

double pl_probe_spread(const pl_probe *probe, const char **what)
{
    static const struct {
        size_t member;
        const char *name;
    } figures[] = {{offsetof(pl_step_times, step_s), "step"},
                   {offsetof(pl_step_times, kernels_s), "kernels"},
                   {offsetof(pl_step_times, comms_s), "T_comms"}};
    const double part = probe->n_rounds < FEW ? 0 : 0.25;
    double most = 0;

    *what = figures[0].name;
    for (size_t f = 0; f < sizeof figures / sizeof *figures && probe->n_rounds > 0; f++) {
        const double apart =
            quantile(probe, figures[f].member, 1 - part) - quantile(probe, figures[f].member, part);
        const double spread = apart / quantile(probe, figures[f].member, 0.5);

        if (spread > most) { /* NaN: not measured */
            most = spread;
            *what = figures[f].name;
        }
    }
    return most;
}

static pl_status run_steps(pl_session *s, int n_steps, pl_step_times *times)
{
    pl_status status = PL_OK;

    for (int i = -1; i < n_steps && status == PL_OK; i++) {
        pl_step_result r = {0};

        pl_mpi_meet(s->world);
        status = pl_session_step(s, i + 1, &r);
        if (status != PL_OK || i < 0)
            continue;
        times[i] = (pl_step_times){.kernels_s = r.kernels_s,
                                   .update_s = r.update_s,
                                   .comms_s = NAN,
                                   .exposed_s = r.exposed_s,
                                   .step_s = r.step_s};
    }
    return status;
}

/* What a step consists of, in two parts. After the steps, since arrays then hold anything. */
static void run_apart(pl_session *s, int n_steps, pl_axes within, pl_step_times *times)
{
    for (int i = 0; i < n_steps; i++) {
        pl_step_times *t = &times[i];

        pl_mpi_meet(s->world);
        const double begin_s = pl_now_s();
        pl_run_kernels(s->run);
        t->kernels_s = pl_now_s() - begin_s;
        pl_mpi_meet(s->world);
        const double met_s = pl_now_s();
        pl_run_communication(s->run, within);
        t->comms_s = pl_now_s() - met_s;
    }
}

static pl_status measure(pl_session *s, int n_steps, pl_probe *probe)
{
    pl_step_times *times = probe->round;
    pl_status status = pl_session_start(s);

    PL_ASSERT(n_steps <= PL_PROBE_MOST_STEPS);
    if (status == PL_OK)
        status = run_steps(s, n_steps, times);
    if (status != PL_OK)
        return status;
    if (probe->apart)
        run_apart(s, n_steps, axes_of(probe, &s->mesh), times);
    for (int i = 0; i < n_steps; i++)
        agree_on(s, &times[i]);
    probe->n_rounds = n_steps;
    probe->measured =
        (pl_step_times){.kernels_s = quantile(probe, offsetof(pl_step_times, kernels_s), 0.5),
                        .update_s = quantile(probe, offsetof(pl_step_times, update_s), 0.5),
                        .comms_s = quantile(probe, offsetof(pl_step_times, comms_s), 0.5),
                        .exposed_s = quantile(probe, offsetof(pl_step_times, exposed_s), 0.5),
                        .step_s = quantile(probe, offsetof(pl_step_times, step_s), 0.5)};
    return PL_OK;
}

pl_status pl_probe_measure(const pl_session *session, int n_steps, pl_probe *probe)
{
    pl_options options = *session->options;
    double memory_bytes;
    pl_session s;

    options.spec = probe->spec;
    options.batch = probe->batch;
    options.seq = probe->seq;
    options.micro_batch = probe->micro_batch;
    options.steps = n_steps + 1;
    options.warmup = -1;
    options.eval_every = 0;
    options.eval_only = false;
    options.save = options.log = options.trace = options.machine = NULL;
    pl_probe_predict(session, probe, &memory_bytes);
    pl_status status = pl_session_open(session->world, &options, &s);
    pl_session_use_machine(&s, &session->machine);
    if (status == PL_OK)
        status = pl_session_plan(&s);
    if (status == PL_OK)
        status = measure(&s, n_steps, probe);
    pl_session_close(&s);
    return status;
}
