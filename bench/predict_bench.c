/* predict_bench -- how close predictions come to what was predicted: run by `make bench-predict`.
 *
 * Three models (the preset small; one wide and shallow; one narrow and deep), strategies dp, fsdp,
 * tp, and pp with 4 microbatches over all ranks. A round runs every case once, in turn, each in a
 * session of its own: a warm-up step, then some steps that are measured. The machine is the cached
 * one, or calibrated at the start; no case is among what calibration measures.
 *   step   predicted / measured - 1: the median of a round's steps, each that of the slowest rank
 *   ops    the worst such error among the rows of the report (rank 0) that make up 90% of the step:
 *          kernels by their time, communication by the time that it is exposed
 * `only=wide` or `only=wide/tp` leaves the other cases out, `steps=N` says how many are measured (on
 * slow links), `show` prints those rows.
 * Prints each case's median over the rounds, and how it spreads. Exit code 1 when a target is
 * missed: each step within LIMIT, half of them within half of it, each of those ops within 15%. */
#include "config.h"

#include "src/base/log.h"
#include "src/base/panic.h"
#include "src/trace/report.h"
#include "src/train/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_STEPS = 3, MAX_STEPS = 100, MAX_ROUNDS = 40, N_MODELS = 3, N_STRATEGIES = 4, MAX_WORDS = 24, WORD = 96 };

static const double op_limit = 0.15, share_of_step = 0.9;

static const struct {
    const char *name;
    pl_model_config config; /* n_layers 0: a preset */
    int seq, batch_a_rank;
} models[N_MODELS] = {
    {"small", {.n_layers = 0}, 256, 4},
    {"wide",
     {.n_layers = 2,
      .d_model = 1024,
      .n_heads = 16,
      .n_kv_heads = 8,
      .head_dim = 64,
      .d_ff = 4096,
      .vocab = 256,
      .max_seq = 128,
      .rms_eps = 1e-5,
      .rope_theta = 10000},
     128,
     4},
    {"deep",
     {.n_layers = 16,
      .d_model = 256,
      .n_heads = 8,
      .n_kv_heads = 8,
      .head_dim = 32,
      .d_ff = 768,
      .vocab = 256,
      .max_seq = 256,
      .rms_eps = 1e-5,
      .rope_theta = 10000},
     256,
     4},
};

static const char *const strategies[N_STRATEGIES] = {"dp", "fsdp", "tp", "pp"};

/* What the command line asks for. */
typedef struct {
    int n_rounds, n_steps;
    double limit;
    bool show;
    const char *only; /* MODEL or MODEL/STRATEGY; NULL: all */
} request;

typedef struct {
    int n; /* rounds that ran */
    double predicted_s[MAX_ROUNDS], measured_s[MAX_ROUNDS], op_error[MAX_ROUNDS];
    char op[64]; /* the worst, in the last round */
} result;

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double quantile(const double *x, int n, double q)
{
    double sorted[MAX_ROUNDS * N_MODELS * N_STRATEGIES];

    memcpy(sorted, x, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    return sorted[(int)(q * (n - 1) + 0.5)];
}

/* What a row adds to the step. */
static double share_s(const pl_report_row *row, bool measured)
{
    if (row->is_communication)
        return measured ? row->exposed_s : row->predicted_exposed_s;
    return measured ? row->measured_s : row->predicted_s;
}

static int by_share(const void *a, const void *b)
{
    const double x = share_s(a, true), y = share_s(b, true);

    return (x < y) - (x > y);
}

/* The worst error among the largest rows, down to where they make up share_of_step. */
static double worst_op(const pl_session *s, const request *ask, bool show, double step_s,
                       char *name, size_t size)
{
    const pl_report report = {.program = s->program,
                              .prediction = s->prediction,
                              .measured = pl_run_measures(s->run),
                              .n_steps = ask->n_steps,
                              .step_s = step_s};
    pl_report_row *rows = pl_alloc((size_t)(s->program->n_ops + 1) * sizeof *rows);
    const int n = pl_report_rows(&report, rows);
    double sum_s = 0, worst = 0;

    qsort(rows, (size_t)n, sizeof *rows, by_share);
    for (int i = 0; i < n && sum_s < share_of_step * step_s; i++) {
        const double error = share_s(&rows[i], false) / share_s(&rows[i], true) - 1;

        if (show)
            printf("    %-24s %-8s %10.3f %10.3f ms %+7.1f%%\n", rows[i].name,
                   pl_phase_name(rows[i].phase), share_s(&rows[i], false) * 1e3,
                   share_s(&rows[i], true) * 1e3, error * 100);
        sum_s += share_s(&rows[i], true);
        if (fabs(error) < fabs(worst))
            continue;
        worst = error;
        snprintf(name, size, "%s %s", rows[i].name, pl_phase_name(rows[i].phase));
    }
    pl_free(rows);
    return worst;
}

static pl_status run_session(pl_session *s, const request *ask, bool show, result *r)
{
    double step_s[MAX_STEPS];
    pl_step_result one;
    pl_status status = pl_session_start(s);

    if (status == PL_OK)
        status = pl_session_step(s, 0, &one);
    pl_run_reset(s->run);
    for (int i = 0; i < ask->n_steps && status == PL_OK; i++) {
        status = pl_session_step(s, i + 1, &one);
        pl_session_max(s, &one.step_s, 1);
        step_s[i] = one.step_s;
    }
    if (status != PL_OK)
        return status;
    const double measured_s = quantile(step_s, ask->n_steps, 0.5);
    r->predicted_s[r->n] = s->prediction->step_s;
    r->measured_s[r->n] = measured_s;
    if (pl_log_rank() == 0)
        r->op_error[r->n] = worst_op(s, ask, show, measured_s, r->op, sizeof r->op);
    r->n++;
    return PL_OK;
}

static bool is_asked_for(const request *ask, int model, int strategy)
{
    char name[WORD];

    snprintf(name, sizeof name, "%s/%s", models[model].name, strategies[strategy]);
    return ask->only == NULL || strcmp(ask->only, models[model].name) == 0 ||
           strcmp(ask->only, name) == 0;
}

/* One run of a case; a strategy that does not fit the model is left out. */
static void run_case(const request *ask, int model, int strategy, const char *folder, int n_ranks,
                     bool show, result *r)
{
    char words[MAX_WORDS][WORD], *argv[MAX_WORDS];
    pl_options options;
    pl_session session;
    pl_spec spec;
    pl_model_config config = models[model].config;
    const int batch = models[model].batch_a_rank * n_ranks;
    int argc = 0;

    if (config.n_layers == 0)
        PL_ASSERT(pl_model_config_preset(models[model].name, &config) == PL_OK);
    snprintf(words[argc++], WORD, "predict_bench");
    snprintf(words[argc++], WORD, "--strategy=%s:%d", strategies[strategy], n_ranks);
    PL_ASSERT(pl_spec_parse(words[1] + strlen("--strategy="), &spec) == PL_OK);
    if (pl_spec_check(&spec, &config, batch, n_ranks) != PL_OK) {
        pl_status_clear();
        return;
    }
    if (models[model].config.n_layers == 0)
        snprintf(words[argc++], WORD, "--model=%s", models[model].name);
    else
        snprintf(words[argc++], WORD, "--model=%.60s/%s.json", folder, models[model].name);
    snprintf(words[argc++], WORD, "--batch=%d", batch);
    snprintf(words[argc++], WORD, "--seq=%d", models[model].seq);
    if (strcmp(strategies[strategy], "pp") == 0)
        snprintf(words[argc++], WORD, "--micro-batch=%d", (batch + 3) / 4);
    for (int i = 0; i < argc; i++)
        argv[i] = words[i];
    argv[argc] = NULL;
    PL_ASSERT(pl_options_parse(argc, argv, &options) == PL_OK);
    if (pl_session_open(MPI_COMM_WORLD, &options, &session) != PL_OK ||
        pl_session_plan(&session) != PL_OK || run_session(&session, ask, show, r) != PL_OK)
        PL_PANIC("%s %s: %s", models[model].name, strategies[strategy], pl_status_message());
    pl_session_close(&session);
}

static void write_models(const char *folder)
{
    for (int m = 0; m < N_MODELS; m++) {
        char path[128];

        snprintf(path, sizeof path, "%s/%s.json", folder, models[m].name);
        if (models[m].config.n_layers > 0)
            PL_ASSERT(pl_model_config_write(path, &models[m].config) == PL_OK);
    }
}

static void remove_models(const char *folder)
{
    for (int m = 0; m < N_MODELS; m++) {
        char path[128];

        snprintf(path, sizeof path, "%s/%s.json", folder, models[m].name);
        remove(path);
    }
    rmdir(folder);
}

/* A case's error is that of its median run. */
static int report(result results[N_MODELS][N_STRATEGIES], double limit)
{
    double errors[N_MODELS * N_STRATEGIES];
    int n = 0, missed = 0;

    printf("%-8s %-8s %6s %12s %12s %8s %18s %8s  %s\n", "", "", "", "predicted", "measured", "error",
           "of single runs", "worst op", "");
    printf("%-8s %-8s %6s %12s %12s %8s %18s %8s  %s\n", "model", "strategy", "runs", "ms a step",
           "ms a step", "%", "%", "%", "which");
    for (int m = 0; m < N_MODELS; m++)
        for (int s = 0; s < N_STRATEGIES; s++) {
            const result *r = &results[m][s];
            double error[MAX_ROUNDS];

            for (int i = 0; i < r->n; i++)
                error[i] = 100 * (r->predicted_s[i] / r->measured_s[i] - 1);
            if (r->n == 0)
                continue;
            errors[n] = fabs(quantile(error, r->n, 0.5));
            const double op = 100 * quantile(r->op_error, r->n, 0.5);
            printf("%-8s %-8s %6d %12.2f %12.2f %+8.1f %+8.1f .. %+6.1f %+8.1f  %s\n",
                   models[m].name, strategies[s], r->n,
                   1e3 * quantile(r->predicted_s, r->n, 0.5),
                   1e3 * quantile(r->measured_s, r->n, 0.5), quantile(error, r->n, 0.5),
                   quantile(error, r->n, 0), quantile(error, r->n, 1), op, r->op);
            missed += errors[n] > 100 * limit || fabs(op) > 100 * op_limit;
            n++;
        }
    const double median = quantile(errors, n, 0.5), worst = quantile(errors, n, 1);
    missed += median > 50 * limit;
    printf("step: median of |error| %.1f%% (target %.0f%%), worst %.1f%% (target %.0f%%): %s\n",
           median, 50 * limit, worst, 100 * limit, missed > 0 ? "missed" : "reached");
    return missed > 0;
}

/* Every case once a round, all of a round in turn. */
static void run_rounds(const request *ask, const char *folder, int n_ranks, int rank,
                       result results[N_MODELS][N_STRATEGIES])
{
    for (int i = 0; i < ask->n_rounds; i++)
        for (int m = 0; m < N_MODELS; m++)
            for (int s = 0; s < N_STRATEGIES; s++) {
                const bool show = ask->show && i == ask->n_rounds - 1;

                if (!is_asked_for(ask, m, s))
                    continue;
                if (show && rank == 0)
                    printf("%s %s\n", models[m].name, strategies[s]);
                run_case(ask, m, s, folder, n_ranks, show, &results[m][s]);
            }
}

/* ROUNDS LIMIT [show] [steps=N] [only=MODEL[/STRATEGY]] */
static bool understand(int argc, char **argv, request *ask)
{
    *ask = (request){.n_rounds = argc > 1 ? atoi(argv[1]) : 0,
                     .limit = argc > 2 ? atof(argv[2]) : 0,
                     .n_steps = N_STEPS};
    for (int i = 3; i < argc; i++) {
        if (strcmp(argv[i], "show") == 0)
            ask->show = true;
        else if (strncmp(argv[i], "steps=", 6) == 0)
            ask->n_steps = atoi(argv[i] + 6);
        else if (strncmp(argv[i], "only=", 5) == 0)
            ask->only = argv[i] + 5;
        else
            return false;
    }
    bool any = false;
    for (int m = 0; m < N_MODELS; m++)
        for (int s = 0; s < N_STRATEGIES; s++)
            any = any || is_asked_for(ask, m, s);
    return any && ask->n_rounds >= 1 && ask->n_rounds <= MAX_ROUNDS && ask->n_steps >= 1 &&
           ask->n_steps <= MAX_STEPS && ask->limit > 0;
}

int main(int argc, char **argv)
{
    static result results[N_MODELS][N_STRATEGIES];
    char folder[] = "/tmp/predict_bench.XXXXXX";
    int rank, size, missed = 0;
    request ask;

    PL_MPI(MPI_Init(&argc, &argv));
    PL_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    PL_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
    pl_log_set_rank(rank);
    if (!understand(argc, argv, &ask)) {
        if (rank == 0)
            fprintf(stderr,
                    "usage: mpirun -np N predict_bench ROUNDS LIMIT [show] [steps=N] "
                    "[only=MODEL[/STRATEGY]]\n"
                    "       at most %d rounds of at most %d steps; LIMIT: of a step's error, 0.1 "
                    "for 10%%\n",
                    MAX_ROUNDS, MAX_STEPS);
        PL_MPI(MPI_Finalize());
        return 2;
    }
    if (rank == 0) {
        PL_ASSERT(mkdtemp(folder) != NULL);
        write_models(folder);
    }
    PL_MPI(MPI_Bcast(folder, sizeof folder, MPI_CHAR, 0, MPI_COMM_WORLD));
    run_rounds(&ask, folder, size, rank, results);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        missed = report(results, ask.limit);
        remove_models(folder);
    }
    PL_MPI(MPI_Finalize());
    return missed;
}
