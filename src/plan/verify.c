/* plan verify -- the best plans run on this machine: predicted against measured rank, and regret.
 *
 * Every strategy that suits the model is predicted by `train --dry-run` on as many ranks as are
 * asked for; the best few (or all) are then run, and what they were predicted and measured at is
 * taken from their logs. So what is verified is what train itself says and does. */
#include "config.h"

#include "src/base/clock.h"
#include "src/base/command.h"
#include "src/base/json.h"
#include "src/base/log.h"
#include "src/base/memory.h"
#include "src/base/parse.h"
#include "src/plan/ask.h"
#include "src/plan/commands.h"
#include "strategies/strategy.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    KEY_NP = 256,
    KEY_MODEL,
    KEY_BATCH,
    KEY_SEQ,
    KEY_STEPS,
    KEY_TOP,
    KEY_REPEAT,
    KEY_TRAIN,
    KEY_JSON
};
enum { MOST_PLANS = 128, SPEC = 64, MOST_REPEATS = 16 };

typedef struct {
    char spec[SPEC];
    double predicted_s, measured_s; /* measured: the least median of its runs; 0: not run */
} verified;

typedef struct {
    const char *model, *batch, *seq, *train;
    int64_t n_ranks, steps, top, repeats;
    bool json, help, version, only_predict;
    pl_status status;
    int n;
    verified plan[MOST_PLANS];
} verification;

static const struct argp_option option_table[] = {
    {"np", KEY_NP, "N", 0, "ranks (default 4)", 0},
    {"model", KEY_MODEL, "NAME|FILE", 0, "as train's (default small)", 0},
    {"batch", KEY_BATCH, "N", 0, "sequences a step, as train's", 0},
    {"seq", KEY_SEQ, "T", 0, "tokens a sequence, as train's", 0},
    {"steps", KEY_STEPS, "N", 0, "of a run; the first is left out (default 4)", 0},
    {"top", KEY_TOP, "K", 0, "run the K best by prediction (default 4; 0: all)", 0},
    {"repeat", KEY_REPEAT, "N", 0, "runs of each, in turn; the fastest counts (default 2)", 0},
    {"train", KEY_TRAIN, "FILE", 0, "the program (default: train beside this one)", 0},
    {"json", KEY_JSON, 0, 0, "one JSON object, units in its keys", 0},
    {"help", '?', 0, 0, "this text", -1},
    {"version", 'V', 0, 0, "version", -1},
    {0, 0, 0, 0, 0, 0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    verification *v = state->input;

    switch (key) {
    case KEY_NP:
        v->status = pl_parse_integer("--np", arg, 1, 4096, &v->n_ranks);
        break;
    case KEY_MODEL:
        v->model = arg;
        break;
    case KEY_BATCH:
        v->batch = arg;
        break;
    case KEY_SEQ:
        v->seq = arg;
        break;
    case KEY_STEPS:
        v->status = pl_parse_integer("--steps", arg, 2, 1000, &v->steps);
        break;
    case KEY_TOP:
        v->status = pl_parse_integer("--top", arg, 0, MOST_PLANS, &v->top);
        break;
    case KEY_REPEAT:
        v->status = pl_parse_integer("--repeat", arg, 1, MOST_REPEATS, &v->repeats);
        break;
    case KEY_TRAIN:
        v->train = arg;
        break;
    case KEY_JSON:
        v->json = true;
        break;
    case '?':
        v->help = true;
        break;
    case 'V':
        v->version = true;
        break;
    case ARGP_KEY_ARG:
        v->status = pl_refuse(PL_BAD_INPUT, "'%s' is not an option; see --help", arg);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return v->status == PL_OK ? 0 : EINVAL;
}

static const struct argp parser = {
    option_table,
    parse_option,
    NULL,
    "Run the plans that are predicted to be the fastest on this machine, and compare.\v"
    "Example: plan verify --np 4 --model small --batch 16\n\n"
    "Ranks are started by $MPIRUN, or mpirun.",
    NULL,
    NULL,
    NULL};

/* The program beside the running one, with its prefix when installed. */
static void find_train(char *path, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", path, size - 8);
    char *name;

    if (n < 0) {
        snprintf(path, size, "./train");
        return;
    }
    path[n] = '\0';
    name = strrchr(path, '/');
    name = name == NULL ? path : name + 1;
    char *plan = strstr(name, "plan");
    snprintf(plan != NULL ? plan : name, size - (size_t)((plan != NULL ? plan : name) - path),
             "train");
}

/* Run train with its output thrown away; its exit code. */
static int run_train(const verification *v, const char *spec, const char *log, bool dry)
{
    const char *mpirun = getenv("MPIRUN") != NULL ? getenv("MPIRUN") : "mpirun";
    char np[24], steps[24];
    const char *argv[24] = {mpirun, "-np"};
    int n = 2, status;

    snprintf(np, sizeof np, "%lld", (long long)v->n_ranks);
    snprintf(steps, sizeof steps, "%lld", (long long)v->steps);
    argv[n++] = np;
    argv[n++] = v->train;
    argv[n++] = "--strategy";
    argv[n++] = spec;
    argv[n++] = "--model";
    argv[n++] = v->model;
    argv[n++] = "--log";
    argv[n++] = log;
    argv[n++] = "--steps";
    argv[n++] = steps;
    if (v->batch != NULL) {
        argv[n++] = "--batch";
        argv[n++] = v->batch;
    }
    if (v->seq != NULL) {
        argv[n++] = "--seq";
        argv[n++] = v->seq;
    }
    if (dry)
        argv[n++] = "--dry-run";
    argv[n] = NULL;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        if (freopen("/dev/null", "w", stdout) == NULL || freopen("/dev/null", "r", stdin) == NULL)
            _exit(127);
        execvp(mpirun, (char *const *)(const void *)argv);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0 || !WIFEXITED(status))
        return 127;
    return WEXITSTATUS(status);
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, *const y = b;

    return (x > *y) - (x < *y);
}

/* The summary's predicted step, and the median of the steps but the first. */
static bool read_log(const char *path, double *predicted_s, double *measured_s)
{
    double steps[1024];
    char *line = NULL;
    size_t room = 0;
    int n = 0;
    FILE *file = fopen(path, "r");

    *predicted_s = *measured_s = 0;
    while (file != NULL && getline(&line, &room, file) >= 0) {
        json_t *record = json_loads(line, 0, NULL);
        const char *what = json_string_value(json_object_get(record, "record"));

        if (what != NULL && strcmp(what, "step") == 0 && n < 1024 &&
            json_integer_value(json_object_get(record, "step")) > 0)
            steps[n++] = json_number_value(json_object_get(record, "step_s"));
        if (what != NULL && strcmp(what, "summary") == 0)
            *predicted_s = json_number_value(json_object_get(record, "predicted_s"));
        json_decref(record);
    }
    free(line);
    if (file != NULL)
        fclose(file);
    if (n > 0) {
        qsort(steps, (size_t)n, sizeof *steps, compare_doubles);
        *measured_s = n % 2 ? steps[n / 2] : (steps[n / 2 - 1] + steps[n / 2]) / 2;
    }
    return *predicted_s > 0;
}

static void try_spec(verification *v, const char *spec, const char *log)
{
    double predicted_s, measured_s;

    if (v->n == MOST_PLANS || run_train(v, spec, log, true) != 0 ||
        !read_log(log, &predicted_s, &measured_s))
        return;
    verified *p = &v->plan[v->n++];
    *p = (verified){.predicted_s = predicted_s};
    snprintf(p->spec, sizeof p->spec, "%s", spec);
}

/* Every way to write the ranks as pp x dp x fsdp x tp; train refuses what does not suit. */
static void predict_all(verification *v, const char *log)
{
    static const char *const names[4] = {"pp", "dp", "fsdp", "tp"};
    const int N = (int)v->n_ranks;

    for (int pp = 1; pp <= N; pp++)
        for (int dp = 1; dp <= N / pp; dp++)
            for (int fsdp = 1; fsdp <= N / pp / dp; fsdp++) {
                const int tp = N / pp / dp / fsdp, degree[4] = {pp, dp, fsdp, tp};
                char spec[SPEC] = "";
                size_t at = 0;

                if (pp * dp * fsdp * tp != N)
                    continue;
                for (int k = 0; k < 4; k++)
                    if (degree[k] > 1)
                        at += (size_t)snprintf(spec + at, sizeof spec - at, "%s%s:%d",
                                               at > 0 ? "+" : "", names[k], degree[k]);
                try_spec(v, at > 0 ? spec : "dp:1", log);
            }
}

static int by_prediction(const void *a, const void *b)
{
    const verified *x = a, *y = b;

    return (x->predicted_s > y->predicted_s) - (x->predicted_s < y->predicted_s);
}

/* In turn, so that what disturbs the machine disturbs all alike. */
static pl_status run_best(verification *v, int n, const char *log)
{
    for (int round = 0; round < v->repeats; round++)
        for (int i = 0; i < n; i++) {
            double predicted_s, measured_s;

            pl_say("run %d of %lld: %s", round + 1, (long long)v->repeats, v->plan[i].spec);
            if (run_train(v, v->plan[i].spec, log, false) != 0 ||
                !read_log(log, &predicted_s, &measured_s) || !(measured_s > 0))
                return pl_refuse(PL_WRONG, "train --strategy %s failed", v->plan[i].spec);
            if (round == 0 || measured_s < v->plan[i].measured_s)
                v->plan[i].measured_s = measured_s;
        }
    return PL_OK;
}

static int measured_rank(const verification *v, int n, int i)
{
    int rank = 1;

    for (int k = 0; k < n; k++)
        rank += v->plan[k].measured_s < v->plan[i].measured_s;
    return rank;
}

static double regret_of(const verification *v, int n)
{
    double best_s = v->plan[0].measured_s;

    for (int i = 1; i < n; i++)
        best_s = fmin(best_s, v->plan[i].measured_s);
    return v->plan[0].measured_s / best_s - 1;
}

/* What is predicted here, of all plans, without running any. */
static void show_predictions(const verification *v)
{
    json_t *root = json_object(), *plans = json_array();

    if (!v->json)
        printf("%s on this machine, %lld ranks, predicted by train:\n\n  %-28s %9s\n", v->model,
               (long long)v->n_ranks, "strategy", "step (s)");
    for (int i = 0; i < v->n; i++) {
        if (!v->json)
            printf("  %-28s %9.4f  %+.1f%%\n", v->plan[i].spec, v->plan[i].predicted_s,
                   100 * (v->plan[i].predicted_s / v->plan[0].predicted_s - 1));
        json_array_append_new(plans, json_pack("{s:s, s:o}", "strategy", v->plan[i].spec, "step_s",
                                               pl_json_real(v->plan[i].predicted_s)));
    }
    json_object_set_new(root, "plans", plans);
    if (v->json)
        pl_ask_print_json(root);
    else
        json_decref(root);
}

static void show(const verification *v, int n)
{
    json_t *root = json_object(), *plans = json_array();

    for (int i = 0; i < n; i++) {
        const verified *p = &v->plan[i];

        json_array_append_new(plans, json_pack("{s:s, s:o, s:o, s:i, s:i}", "strategy", p->spec,
                                               "predicted_step_s", pl_json_real(p->predicted_s),
                                               "measured_step_s", pl_json_real(p->measured_s),
                                               "predicted_rank", i + 1, "measured_rank",
                                               measured_rank(v, n, i)));
        if (!v->json && i == 0)
            printf("%s on %lld ranks: %d plans, %d of them run\n\n  %-28s %13s %13s %8s  rank "
                   "predicted, measured\n",
                   v->model, (long long)v->n_ranks, v->n, n, "strategy", "predicted (s)",
                   "measured (s)", "error");
        if (!v->json)
            printf("  %-28s %13.4f %13.4f %+7.1f%%  %d, %d\n", p->spec, p->predicted_s,
                   p->measured_s, 100 * (p->predicted_s / p->measured_s - 1), i + 1,
                   measured_rank(v, n, i));
    }
    json_object_set_new(root, "plans", plans);
    json_object_set_new(root, "regret_fraction", pl_json_real(regret_of(v, n)));
    if (v->json)
        pl_ask_print_json(root);
    else
        printf(
            "\n  the plan that prediction chose is %.1f%% slower than the fastest of those run\n",
            100 * regret_of(v, n));
    if (!v->json)
        json_decref(root);
}

static pl_status verify(verification *v)
{
    char log[] = "/tmp/purlin-verify-XXXXXX", path[1024];
    const int file = mkstemp(log);
    pl_status status = PL_OK;

    if (file < 0)
        return pl_refuse(PL_ENVIRONMENT, "cannot make a file in /tmp: %s", strerror(errno));
    close(file);
    find_train(path, sizeof path);
    if (v->train == NULL)
        v->train = path;
    predict_all(v, log);
    if (v->n == 0) {
        unlink(log);
        return pl_refuse(PL_BAD_INPUT,
                         "%s predicts no strategy for %s on %lld ranks (see what it says above)",
                         v->train, v->model, (long long)v->n_ranks);
    }
    qsort(v->plan, (size_t)v->n, sizeof *v->plan, by_prediction);
    if (v->only_predict) {
        unlink(log);
        show_predictions(v);
        return PL_OK;
    }
    const int n = v->top == 0 || v->top > v->n ? v->n : (int)v->top;
    status = run_best(v, n, log);
    unlink(log);
    if (status == PL_OK)
        show(v, n);
    return status;
}

pl_status pl_predict_here(const char *model, int64_t n_ranks, int64_t sequences, int64_t seq,
                          bool json)
{
    verification *v = pl_alloc(sizeof *v);
    char batch[24], tokens[24];

    *v = (verification){
        .model = model, .n_ranks = n_ranks, .steps = 2, .json = json, .only_predict = true};
    snprintf(batch, sizeof batch, "%lld", (long long)sequences);
    snprintf(tokens, sizeof tokens, "%lld", (long long)seq);
    v->batch = sequences > 0 ? batch : NULL;
    v->seq = seq > 0 ? tokens : NULL;
    const pl_status status = verify(v);
    pl_free(v);
    return status;
}

pl_status pl_plan_verify(int argc, char **argv)
{
    verification *v = pl_alloc(sizeof *v);
    pl_status status;

    *v = (verification){.model = "small", .n_ranks = 4, .steps = 4, .top = 4, .repeats = 2};
    status = pl_command_parse(&parser, argc, argv, v, &v->status);
    if (status == PL_OK && (v->help || v->version))
        pl_command_answer(&parser, argv[0], v->version, v->help);
    else if (status == PL_OK)
        status = verify(v);
    pl_free(v);
    return status;
}
