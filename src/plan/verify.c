/* plan verify -- the best plans run on this machine: predicted against measured rank, and regret.
 *
 * Options in, a job of `train --compare` out. */
#include "config.h"

#include "src/base/command.h"
#include "src/base/parse.h"
#include "src/plan/commands.h"
#include "src/plan/here.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Options that are train's own are passed on as they were typed; keys above these are places in
 * the table. */
enum { KEY_NP = 256, KEY_TOP, KEY_TRAIN, KEY_JSON, KEY_PASSED };

static const struct argp_option option_table[] = {
    {"np", KEY_NP, "N", 0, "ranks (default 4)", 0},
    {"top", KEY_TOP, "K|all", 0,
     "run the K best by prediction, and the best with most dp, fsdp, tp, pp (default 4)", 0},
    {"train", KEY_TRAIN, "FILE", 0, "the program (default: train beside this one)", 0},
    {"json", KEY_JSON, 0, 0, "one JSON object, units in its keys", 0},
    {0, 0, 0, 0, "As train's:", 1},
    {"model", KEY_PASSED, "NAME|FILE", 0, "(default small)", 0},
    {"batch", KEY_PASSED + 1, "N", 0, "sequences a step", 0},
    {"micro-batch", KEY_PASSED + 2, "N", 0, "sequences a microbatch", 0},
    {"seq", KEY_PASSED + 3, "T", 0, "tokens a sequence", 0},
    {"dtype", KEY_PASSED + 4, "f32|bf16", 0, "", 0},
    {"strategy", KEY_PASSED + 5, "SPEC", 0, "what is left open of it (default pp+dp+fsdp+tp)", 0},
    {"zero", KEY_PASSED + 6, "0|1|2", 0, "ZeRO stage of dp", 0},
    {"schedule", KEY_PASSED + 7, "gpipe|1f1b", 0, "of a pipeline", 0},
    {"machine", KEY_PASSED + 8, "FILE", 0, "for predictions", 0},
    {"steps", KEY_PASSED + 9, "N", 0, "of each plan, in turn; their median counts (default 5)", 0},
    {0, 0, 0, 0, 0, 0},
};
enum { N_PASSED = 10 };
static const char *const passed_flags[N_PASSED] = {
    "--model",    "--batch", "--micro-batch", "--seq",     "--dtype",
    "--strategy", "--zero",  "--schedule",    "--machine", "--steps",
};

typedef struct {
    pl_here job;
    const char *top, *passed[N_PASSED];
    pl_status status;
} verification;

/* What cannot be run the launcher would say, in twenty lines. */
static pl_status take_program(const char *path, const char **program)
{
    struct stat about;

    if (stat(path, &about) != 0 || access(path, X_OK) != 0)
        return pl_refuse(PL_BAD_INPUT, "--train: cannot run %s: %s", path, strerror(errno));
    if (!S_ISREG(about.st_mode))
        return pl_refuse(PL_BAD_INPUT, "--train: cannot run %s: it is no program", path);
    *program = path;
    return PL_OK;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    verification *v = state->input;

    if (key >= KEY_PASSED && key < KEY_PASSED + N_PASSED) {
        v->passed[key - KEY_PASSED] = arg;
        return 0;
    }
    switch (key) {
    case KEY_NP:
        v->status = pl_parse_integer("--np", arg, 1, 4096, &v->job.n_ranks);
        break;
    case KEY_TOP:
        v->top = arg;
        break;
    case KEY_TRAIN:
        v->status = take_program(arg, &v->job.train);
        break;
    case KEY_JSON:
        v->job.json = true;
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

pl_status pl_plan_verify(int argc, char **argv)
{
    verification v = {.job = {.n_ranks = 4}, .top = "4"};
    pl_command_asked asked;
    const pl_status status = pl_command_parse(&parser, argc, argv, &v, &v.status, &asked);

    if (status != PL_OK || pl_command_answered(&asked))
        return status;
    pl_here_option(&v.job, "--compare", v.top);
    for (int i = 0; i < N_PASSED; i++)
        pl_here_option(&v.job, passed_flags[i], v.passed[i]);
    return pl_here_run(&v.job);
}
