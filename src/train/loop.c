#include "config.h"

#include "src/train/loop.h"

#include "src/base/agree.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/memory.h"
#include "src/base/panic.h"
#include "src/base/units.h"
#include "src/program/print.h"
#include "src/trace/busiest.h"
#include "src/trace/chrome.h"
#include "src/trace/report.h"
#include "src/trace/run_log.h"
#include "src/train/banner.h"
#include "src/train/measure.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>

enum { MAX_SPANS = 1 << 22 }; /* a trace keeps at most so many spans a rank: 128 MiB */

/* Ctrl-C, or the launcher on its behalf: finish the step, then stop. Asked a second time the
 * process ends at once. */
static volatile sig_atomic_t stop_asked;

static void ask_stop(int signal_number)
{
    (void)signal_number;
    stop_asked = 1;
}

/* A run under way. */
typedef struct {
    pl_session *s;
    pl_json_lines log; /* rank 0 */
    pl_trace trace;    /* rank 0 */
    double begin_s;
    int64_t n_steps;    /* done */
    int64_t n_measured; /* steps in the measures: all but the first, when there is more than one */
    double measured_s;  /* their wall time */
} run_state;

static pl_status open_outputs(run_state *r)
{
    const pl_options *o = r->s->options;
    pl_status status = PL_OK;

    if (pl_log_rank() == 0 && o->log != NULL && !o->print)
        status = pl_run_log_open(&r->log, o->log);
    if (pl_log_rank() == 0 && status == PL_OK && o->trace != NULL && !o->print && !o->dry_run)
        status = pl_trace_open(&r->trace, o->trace);
    return pl_agree(r->s->world, status);
}

static pl_status log_run(run_state *r)
{
    const pl_session *s = r->s;
    const pl_options *o = s->options;
    const pl_log_run run = {.version = PACKAGE_VERSION,
                            .argc = o->argc,
                            .argv = o->argv,
                            .n_ranks = s->topology.n_ranks,
                            .n_hosts = s->topology.n_hosts,
                            .threads_per_rank = s->topology.threads,
                            .plan = &s->plan,
                            .mesh = &s->mesh,
                            .batch = &s->program->batch,
                            .machine = &s->machine,
                            .machine_file = o->machine,
                            .choice = s->choice,
                            .init = o->init,
                            .data = o->data,
                            .order = o->order == PL_ORDER_RANDOM ? "random" : "sequential",
                            .n_tokens = s->corpus.n_train,
                            .steps = o->steps,
                            .warmup = o->warmup >= 0 ? o->warmup : o->steps / 10,
                            .eval_every = o->eval_every,
                            .seed = o->seed,
                            .lr = o->lr,
                            .clip = o->clip,
                            .lr_schedule = o->lr_constant ? "constant" : "cosine"};

    return pl_run_log_run(&r->log, &run);
}

static int64_t tokens_of_step(const run_state *r)
{
    return r->s->plan.batch * r->s->plan.seq;
}

static void print_heading(const run_state *r)
{
    const double entropy = r->s->corpus.entropy_nats;

    pl_print("%9s %9s%s %10s %9s %9s %9s %6s %9s %7s\n", "step", "loss",
             entropy > 0 ? "   entropy" : "", "grad norm", "lr", "tokens/s", "step time", "MFU",
             "exposed", "left");
}

static void print_step(const run_state *r, int64_t step, const pl_step_result *result)
{
    const int64_t left = r->s->options->steps - step - 1;
    const double left_s = (pl_now_s() - r->begin_s) / (double)(step + 1) * (double)left;
    const double entropy = r->s->corpus.entropy_nats;
    char known[16] = "", count[24];

    if (entropy > 0)
        snprintf(known, sizeof known, " %9.4f", entropy);
    snprintf(count, sizeof count, "%lld/%lld", (long long)step + 1,
             (long long)r->s->options->steps);
    pl_print("%9s %9.5f%s %10.4f %9.3g %9.0f %9s %5.1f%% %9s %4d:%02d\n", count, result->loss,
             known, result->grad_norm, result->lr, (double)tokens_of_step(r) / result->step_s,
             pl_si(result->step_s, "s").text, 100 * pl_session_mfu(r->s, result->step_s),
             pl_si(result->exposed_s, "s").text, (int)left_s / 60, (int)left_s % 60);
    if (pl_log_rank() == 0)
        fflush(stdout);
}

static pl_status log_step(run_state *r, int64_t step, const pl_step_result *result)
{
    const pl_log_step record = {.step = step,
                                .loss = result->loss,
                                .grad_norm = result->grad_norm,
                                .lr = result->lr,
                                .tokens = tokens_of_step(r),
                                .tokens_per_s = (double)tokens_of_step(r) / result->step_s,
                                .step_s = result->step_s,
                                .mfu = pl_session_mfu(r->s, result->step_s),
                                .exposed_comm_s = result->exposed_s};

    return pl_run_log_step(&r->log, &record);
}

/* A model that was loaded should know more than that there are V tokens. */
static void warn_if_uniform(const pl_session *s, double loss)
{
    const double uniform = log((double)s->model.vocab);

    if (s->file != NULL && loss > uniform)
        pl_warn("the loss of %s on this data is %.2f, worse than a uniform guess (ln %lld = %.2f): "
                "is the file of this layout, and the data of its tokenizer?",
                s->options->init, loss, (long long)s->model.vocab, uniform);
}

static pl_status evaluate(run_state *r)
{
    double loss;
    int64_t n_tokens;
    pl_status status = pl_session_evaluate(r->s, &loss, &n_tokens);

    if (status != PL_OK)
        return status;
    pl_print("evaluation: mean loss %.7f over %s tokens in %s windows of %lld\n", loss,
             pl_thousands(n_tokens).text, pl_thousands(r->s->n_eval_windows).text,
             (long long)r->s->plan.seq);
    if (r->n_steps == 0)
        warn_if_uniform(r->s, loss);
    const pl_log_eval record = {.loss = loss, .tokens = n_tokens};
    return pl_agree(r->s->world, pl_run_log_eval(&r->log, &record));
}

/* What the ranks measured of a step becomes what the slowest of them did, and exposed what the
 * busiest of the first stage waited; true when any was asked to stop. */
static bool agree_on_step(const pl_session *s, pl_step_result *result)
{
    const double exposed_s = s->program->stage == 0 ? result->exposed_s : INFINITY;
    double x[3] = {result->step_s, -exposed_s, stop_asked};

    pl_session_max(s, x, 3);
    result->step_s = x[0];
    result->exposed_s = -x[1];
    return x[2] > 0;
}

static pl_status train_steps(run_state *r)
{
    pl_session *s = r->s;
    const pl_options *o = s->options;
    const struct sigaction once = {.sa_handler = ask_stop, .sa_flags = (int)SA_RESETHAND};
    bool stop = false;

    sigaction(SIGINT, &once, NULL);
    sigaction(SIGTERM, &once, NULL);
    sigaction(SIGUSR1, &once, NULL); /* launchers pass it on and let the ranks end by themselves */
    print_heading(r);
    r->begin_s = pl_now_s();
    for (int64_t step = 0; step < o->steps && !stop; step++) {
        pl_step_result result;
        pl_status status = pl_session_step(s, step, &result);

        if (status != PL_OK)
            return status;
        stop = agree_on_step(s, &result);
        r->n_steps++;
        if (step == 1) { /* the first step touches memory for the first time: it does not count */
            r->n_measured = 0;
            r->measured_s = 0;
        }
        r->n_measured++;
        r->measured_s += result.step_s;
        print_step(r, step, &result);
        if (step == 0)
            warn_if_uniform(s, result.loss);
        status = pl_agree(s->world, log_step(r, step, &result));
        if (status == PL_OK && o->eval_every > 0 && (step + 1) % o->eval_every == 0)
            status = evaluate(r);
        if (status != PL_OK)
            return status;
        if (step == 0 && o->steps > 1 && !stop)
            pl_run_reset(s->run);
    }
    if (stop)
        pl_say("stopped after %lld steps, as asked", (long long)r->n_steps);
    return PL_OK;
}

/* `busiest`: room for the measures of the busiest rank of this rank's stage. */
static void fill_report(run_state *r, pl_op_measure *busiest, pl_report *report)
{
    pl_session *s = r->s;

    *report = (pl_report){.program = s->program,
                          .prediction = s->prediction,
                          .measured = r->n_measured > 0 ? busiest : NULL,
                          .n_steps = r->n_measured,
                          .step_s = r->n_measured > 0 ? r->measured_s / (double)r->n_measured : 0,
                          .wire = &s->wire,
                          .n_wire_steps = r->n_steps};
    if (s->run != NULL)
        pl_session_usage(s, report->used_bytes, report->counted_bytes);
    if (r->n_measured > 0) {
        MPI_Comm stage;

        PL_MPI(MPI_Comm_split(s->world, s->program->stage, 0, &stage));
        pl_busiest_measures(stage, pl_run_measures(s->run), s->program->n_ops, busiest);
        PL_MPI(MPI_Comm_free(&stage));
    }
}

static pl_status report(run_state *r)
{
    pl_op_measure *busiest = pl_alloc((size_t)(r->s->program->n_ops + 1) * sizeof *busiest);
    pl_report table;
    pl_status status;

    fill_report(r, busiest, &table);
    if (pl_log_rank() == 0) {
        if (r->n_steps > 0)
            printf("\n");
        pl_report_print(stdout, &table);
    }
    status = pl_run_log_ops(&r->log, &table);
    const pl_log_summary summary = {
        .mfu = table.step_s > 0 ? pl_session_mfu(r->s, table.step_s) : NAN,
        .tokens_per_s = table.step_s > 0 ? (double)tokens_of_step(r) / table.step_s : NAN};
    if (status == PL_OK)
        status = pl_run_log_summary(&r->log, &table, &summary);
    pl_free(busiest);
    return pl_agree(r->s->world, status);
}

static pl_status write_trace(run_state *r)
{
    const pl_program *programs[1] = {r->s->program};

    if (r->s->options->trace == NULL)
        return PL_OK;
    return pl_agree(r->s->world, pl_trace_write(&r->trace, r->s->world, &r->s->spans, programs,
                                                r->s->comms.coords));
}

static void start_tracing(run_state *r)
{
    pl_session *s = r->s;
    const int64_t wanted = s->options->steps * (2 * s->program->n_actions + 1); /* two at most */

    if (s->options->trace == NULL)
        return;
    pl_span_buffer_init(&s->spans, wanted < MAX_SPANS ? wanted : MAX_SPANS);
    pl_run_trace(s->run, &s->spans, 0);
}

static pl_status train_and_report(run_state *r)
{
    pl_session *s = r->s;
    pl_status status = pl_session_start(s);

    start_tracing(r);
    if (status == PL_OK && s->options->eval_only)
        return evaluate(r);
    if (status == PL_OK)
        status = train_steps(r);
    if (status == PL_OK)
        status = report(r);
    if (status == PL_OK)
        status = write_trace(r);
    if (status == PL_OK && s->options->save != NULL) {
        status = pl_params_save(s->program, s->run, &s->comms, &s->model, s->options->save);
        if (status == PL_OK)
            pl_say("saved to %s", s->options->save);
    }
    return status;
}

static void explain(const pl_session *s)
{
    const pl_explain e = pl_explain_of(s);

    pl_explain_print(&e);
}

static pl_status explain_measure(run_state *r)
{
    const pl_explain e = pl_explain_of(r->s);

    return pl_explain_measure(r->s, &e, &r->log);
}

static pl_status plan_and_run(run_state *r)
{
    pl_session *s = r->s;
    pl_status status = pl_session_plan(s);

    if (status != PL_OK)
        return status;
    if (s->options->print) {
        const pl_coords origin = {{0}};

        for (int i = 0; i < s->n_stages && pl_log_rank() == 0; i++)
            pl_program_print(stdout, s->stages[i], origin, s->options->print_all);
        return PL_OK;
    }
    pl_banner_print(s);
    if (s->options->explain)
        explain(s);
    status = pl_agree(s->world, log_run(r));
    if (status == PL_OK && s->options->measure)
        return explain_measure(r);
    if (status == PL_OK && s->options->dry_run)
        return report(r);
    return status == PL_OK ? train_and_report(r) : status;
}

pl_status pl_train(pl_session *s)
{
    run_state r = {.s = s};
    pl_status status = open_outputs(&r);

    if (status == PL_OK)
        status = plan_and_run(&r);
    const pl_status closed = pl_agree(s->world, pl_json_lines_close(&r.log));
    return status != PL_OK ? status : closed;
}
