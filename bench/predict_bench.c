/* predict_bench -- how close predictions come to what was predicted: run by `make bench-predict`.
 *
 * Three models (the preset small; one wide and shallow; one narrow and deep), strategies dp, fsdp,
 * tp, and pp with 4 microbatches over all ranks. A round trains every case in turn, each in a
 * session of its own: a step to warm up, then some runs of some steps. The machine is the cached
 * one, or calibrated at the start; no case is among what calibration measures.
 *   step   the median of a run's steps, each that of the slowest rank
 *   ops    rows of the report, each the median over the run's steps, of the rank of rank 0's stage
 *          that waits least: kernels by their time, communication by the time that it is exposed
 *   line   what a cache line takes from one rank's core to the next's, after each run: whether the
 *          cores are where they were while the machine was calibrated
 * Records can be kept and many runs' judged later (bench/predict_summary.h). */
#include "config.h"

#include "bench/predict_cases.h"
#include "bench/predict_records.h"
#include "bench/predict_summary.h"
#include "kernels/isa.h"
#include "kernels/matmul.h"
#include "src/base/agree.h"
#include "src/base/command.h"
#include "src/base/finish.h"
#include "src/base/log.h"
#include "src/base/memory.h"
#include "src/base/panic.h"
#include "src/base/parse.h"
#include "src/roofline/line.h"
#include "src/roofline/measure.h"
#include "src/trace/busiest.h"
#include "src/trace/report.h"
#include "src/train/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    MOST_STEPS = 100,
    KEY_ROUNDS = 'n',
    KEY_RUNS = 'r',
    KEY_STEPS = 't',
    KEY_CASE = 'c',
    KEY_APPEND = 'a',
    KEY_SUMMARY = 's'
};

typedef struct {
    int64_t n_rounds, n_runs, n_steps;
    bool chosen[N_CASES], chooses;
    const char *append;
    bool summary;
    char **files; /* of the summary */
    pl_status status;
} options;

static const struct argp_option option_table[] = {
    {"rounds", KEY_ROUNDS, "N", 0, "sessions of each case (default 1)", 1},
    {"runs", KEY_RUNS, "N", 0, "runs in a session (default 4)", 1},
    {"steps", KEY_STEPS, "N", 0, "steps of a run (default 3)", 1},
    {"case", KEY_CASE, "MODEL/STRATEGY", 0,
     "only this case, or those of a MODEL or a STRATEGY; may be repeated", 1},
    {"append", KEY_APPEND, "FILE", 0,
     "add a JSON line a run to FILE; targets are then judged by --summary", 1},
    {"summary", KEY_SUMMARY, 0, 0, "run nothing: judge the runs in the files named", 1},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    options *o = state->input;

    switch (key) {
    case KEY_ROUNDS:
        o->status = pl_parse_integer("--rounds", arg, 1, 1000, &o->n_rounds);
        return o->status == PL_OK ? 0 : EINVAL;
    case KEY_RUNS:
        o->status = pl_parse_integer("--runs", arg, 1, 1000, &o->n_runs);
        return o->status == PL_OK ? 0 : EINVAL;
    case KEY_STEPS:
        o->status = pl_parse_integer("--steps", arg, 1, MOST_STEPS, &o->n_steps);
        return o->status == PL_OK ? 0 : EINVAL;
    case KEY_CASE:
        o->chooses = true;
        if (case_choose(arg, o->chosen))
            return 0;
        o->status = pl_refuse(
            PL_BAD_INPUT,
            "--case takes small, wide or deep, dp, fsdp, tp or pp, or both as small/dp, not \"%s\"",
            arg);
        return EINVAL;
    case KEY_APPEND:
        o->append = arg;
        return 0;
    case KEY_SUMMARY:
        o->summary = true;
        return 0;
    case ARGP_KEY_ARGS:
        o->files = state->argv + state->next;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp parser = {
    .options = option_table,
    .parser = parse,
    .args_doc = "[--summary FILE...]",
    .doc = "Predict trainings, run them, and say how far off the predictions were.\v"
           "mpirun -np 2 --bind-to core bench/predict_bench, on a quiet machine.\n\n"
           "Exit status: 0 all targets reached (or --append); 1 missed; 2 bad options or files; 3 "
           "environment; 4 internal error.",
};

typedef struct {
    float *a, *b, *c;
} product;

enum { EXTENT = 512 };

static void run_product(void *data)
{
    const product *p = data;

    pl_matmul(PL_NO_TRANS, PL_NO_TRANS, EXTENT, EXTENT, EXTENT, p->a, EXTENT, p->b, EXTENT, false,
              p->c, EXTENT, NULL);
}

/* The machine now, beside what it was while it was calibrated: the rate of a product. */
static double speed_now(const pl_session *s)
{
    const size_t bytes = sizeof(float) * EXTENT * EXTENT;
    product p = {pl_alloc(bytes), pl_alloc(bytes), pl_alloc(bytes)};
    const double flops = 2.0 * EXTENT * EXTENT * EXTENT;
    pl_measure m;

    pl_measure_init(&m, s->world, &s->topology, false);
    const double rate = flops * pl_measure_rate(&m, run_product, &p);
    pl_measure_free(&m);
    pl_free(p.a);
    pl_free(p.b);
    pl_free(p.c);
    return rate / pl_curve_at(&s->machine.matmul_flops_per_s, flops);
}

/* What is measured of an op: exposed, and from start to completion. */
typedef struct {
    double counted_s, busy_s;
} op_times;

/* The report's rows of one step, of the busiest rank of a stage. Collective over `stage`. */
static int rows_of_step(const pl_session *s, MPI_Comm stage, double step_s, pl_report_row *rows,
                        op_times *times)
{
    pl_op_measure *busiest = pl_alloc((size_t)(s->program->n_ops + 1) * sizeof *busiest);
    const pl_report report = {.program = s->program,
                              .prediction = s->prediction,
                              .measured = busiest,
                              .n_steps = 1,
                              .step_s = step_s};

    pl_busiest_measures(stage, pl_run_measures(s->run), s->program->n_ops, busiest);
    const int n = pl_report_rows(&report, rows);
    for (int i = 0; i < n; i++)
        times[i] = (op_times){rows[i].is_communication ? rows[i].exposed_s : rows[i].measured_s,
                              rows[i].measured_s};
    pl_free(busiest);
    return n;
}

/* Row i of all steps. */
static op_times median_of_row(const op_times *times, int n_rows, int i, int n_steps)
{
    double counted_s[MOST_STEPS], busy_s[MOST_STEPS];

    for (int k = 0; k < n_steps; k++) {
        counted_s[k] = times[k * n_rows + i].counted_s;
        busy_s[k] = times[k * n_rows + i].busy_s;
    }
    return (op_times){pl_median(counted_s, n_steps), pl_median(busy_s, n_steps)};
}

static void record_rows(const pl_report_row *rows, const op_times *times, int n, int n_steps,
                        record *r)
{
    PL_ASSERT(n <= MOST_ROWS);
    r->n_ops = n;
    for (int i = 0; i < n; i++) {
        const pl_report_row *row = &rows[i];
        const op_times median = median_of_row(times, n, i, n_steps);
        op_record *op = &r->op[i];

        snprintf(op->name, sizeof op->name, "%s %s", row->name, pl_phase_name(row->phase));
        op->is_communication = row->is_communication;
        op->predicted_busy_s = row->predicted_s;
        op->predicted_s = row->is_communication ? row->predicted_exposed_s : row->predicted_s;
        op->measured_busy_s = median.busy_s;
        op->measured_s = median.counted_s;
    }
}

/* A run: n_steps steps from step `first` on. Collective. */
static pl_status run_steps(pl_session *s, MPI_Comm stage, int64_t first, int n_steps, record *r)
{
    const size_t most = (size_t)s->program->n_ops + 1;
    double step_s[MOST_STEPS];
    pl_report_row *rows = pl_alloc(most * sizeof *rows);
    op_times *times = pl_alloc((size_t)n_steps * most * sizeof *times);
    pl_status status = PL_OK;
    int n = 0;

    for (int i = 0; i < n_steps && status == PL_OK; i++) {
        pl_step_result one;

        pl_run_reset(s->run);
        status = pl_session_step(s, first + i, &one);
        pl_session_max(s, &one.step_s, 1);
        step_s[i] = one.step_s;
        n = rows_of_step(s, stage, one.step_s, rows, times + (int64_t)i * n);
    }
    if (status == PL_OK) {
        record_rows(rows, times, n, n_steps, r);
        r->measured_s = pl_median(step_s, n_steps);
    }
    pl_free(rows);
    pl_free(times);
    return status;
}

/* A session: a step to warm up, then runs. */
static pl_status run_session(const options *o, int i, pl_session *s, records *list)
{
    pl_step_result one;
    pl_status status = pl_session_start(s);
    MPI_Comm stage;
    record r = {.n_ranks = s->topology.n_ranks,
                .n_hosts = s->topology.n_hosts,
                .shares_cores =
                    s->topology.oversubscribed || s->machine.ranks_per_core > 1,
                .calibrated_line_s = s->machine.line_s,
                .predicted_s = s->prediction->step_s};

    snprintf(r.model, sizeof r.model, "%s", case_model(i));
    snprintf(r.strategy, sizeof r.strategy, "%s", case_strategy(i));
    PL_MPI(MPI_Comm_split(s->world, s->program->stage, 0, &stage));
    if (status == PL_OK)
        status = pl_session_step(s, 0, &one);
    for (int64_t run = 0; run < o->n_runs && status == PL_OK; run++) {
        status = run_steps(s, stage, 1 + run * o->n_steps, (int)o->n_steps, &r);
        r.line_s = pl_measure_line(s->world, &s->topology, s->heap);
        r.speed = speed_now(s);
        if (status == PL_OK && pl_log_rank() == 0) {
            records_add(list, &r);
            status = record_append(o->append, &r);
        }
        status = pl_agree(s->world, status);
    }
    PL_MPI(MPI_Comm_free(&stage));
    return status;
}

static pl_status run_case(const options *o, int i, const char *folder, int n_ranks, records *list)
{
    pl_options training;
    pl_session session;

    if (!case_options(i, folder, n_ranks, &training))
        return PL_OK;
    pl_status status = pl_session_open(MPI_COMM_WORLD, &training, &session);
    if (status == PL_OK)
        status = pl_session_plan(&session);
    if (status == PL_OK)
        status = run_session(o, i, &session, list);
    pl_session_close(&session);
    return status;
}

static bool is_first_of_host(void)
{
    MPI_Comm host;
    int rank;

    PL_MPI(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host));
    PL_MPI(MPI_Comm_rank(host, &rank));
    PL_MPI(MPI_Comm_free(&host));
    return rank == 0;
}

static pl_status run_rounds(const options *o, records *list)
{
    char folder[] = "/tmp/predict_bench.XXXXXX";
    const bool is_first = is_first_of_host();
    bool writes = pl_log_rank() == 0;
    pl_status status = PL_OK;
    int size;

    PL_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
    if (writes) {
        PL_ASSERT(mkdtemp(folder) != NULL);
        cases_write(folder);
    }
    PL_MPI(MPI_Bcast(folder, sizeof folder, MPI_CHAR, 0, MPI_COMM_WORLD));
    if (is_first && mkdir(folder, 0700) == 0) { /* a host that does not see rank 0's */
        cases_write(folder);
        writes = true;
    }
    pl_mpi_meet(MPI_COMM_WORLD);
    for (int64_t round = 0; round < o->n_rounds; round++)
        for (int i = 0; i < N_CASES && status == PL_OK; i++)
            if (!o->chooses || o->chosen[i])
                status = run_case(o, i, folder, size, list);
    pl_mpi_meet(MPI_COMM_WORLD);
    if (writes)
        cases_remove(folder);
    return status;
}

static pl_status read_files(const options *o, records *list)
{
    pl_status status = PL_OK;

    for (char **file = o->files; file != NULL && *file != NULL && status == PL_OK; file++)
        status = records_read(list, *file);
    if (status == PL_OK && list->n == 0)
        return pl_refuse(PL_BAD_INPUT, "--summary: name files that --append has written to");
    return status;
}

static pl_status predict(int argc, char **argv)
{
    options o = {.n_rounds = 1, .n_runs = 4, .n_steps = 3, .status = PL_OK};
    records list = {0};
    pl_command_asked asked;
    pl_status status = pl_command_parse(&parser, argc, argv, &o, &o.status, &asked);

    if (status == PL_OK && o.files != NULL && !o.summary)
        status = pl_refuse(PL_BAD_INPUT, "\"%s\": files are named with --summary only", *o.files);
    if (status == PL_OK)
        status = pl_isa_choose();
    if (status == PL_OK && pl_log_rank() == 0)
        status = pl_command_check_output("--append", o.append);
    if (!pl_command_begins(&status, &asked))
        return status;
    status = o.summary ? read_files(&o, &list) : run_rounds(&o, &list);
    status = pl_agree(MPI_COMM_WORLD, status);
    if (status == PL_OK && pl_log_rank() == 0 && !records_report(stdout, &list) && o.append == NULL)
        status = PL_WRONG;
    records_free(&list);
    return status;
}

int main(int argc, char **argv)
{
    return pl_command_main(argc, argv, predict);
}
