/* plan matmul, train-time, mfu, bounds -- single questions that are formulas as they stand. */
#include "config.h"

#include "src/plan/ask.h"
#include "src/plan/commands.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Every formula of the command that can be answered; at least one must. `first`: that one must. */
static pl_status answer_all(const pl_ask *ask, const char *const *formulas)
{
    json_t *root = ask->json ? json_object() : NULL;
    pl_status status = pl_ask_answer(ask, formulas[0], formulas[1] == NULL, root);

    for (int i = 1; formulas[i] != NULL && status == PL_OK; i++)
        if (pl_ask_answer(ask, formulas[i], false, root) != PL_OK)
            pl_status_clear();
    if (status == PL_OK)
        pl_ask_print_json(root);
    else
        json_decref(root);
    return status;
}

static pl_status run(const pl_ask_command *command, int argc, char **argv)
{
    pl_ask ask;
    const pl_status status = pl_ask_parse(command, argc, argv, &ask);

    if (status != PL_OK || ask.done)
        return status;
    return answer_all(&ask, command->formulas);
}

/* --- matmul --- */

static const pl_ask_option matmul_options[] = {
    {"m", "B", "rows of X (tokens): B"},
    {"k", "D", "columns of X, rows of W: D"},
    {"n", "F", "columns of W: F"},
    {"flops-per-s", "flops_per_s", "peak, in place of the machine's"},
    {"bytes-per-s", "hbm_bytes_per_s", "memory bandwidth, in place of the machine's"},
    {0},
};
static const char *const matmul_formulas[] = {"matmul", NULL};

pl_status pl_plan_matmul(int argc, char **argv)
{
    static const pl_ask_command command = {
        .usage = "--m M --k K --n N [NAME=NUMBER...]",
        .about = "A matrix product [M, K] . [K, N] on one chip: time of its arithmetic and of its "
                 "memory, intensity, the batch at which it turns compute-bound.",
        .options = matmul_options,
        .formulas = matmul_formulas,
    };
    return run(&command, argc, argv);
}

/* --- train-time, mfu --- */

static void warn_of_mfu(const pl_ask *ask, double mfu)
{
    if (mfu > 1)
        fprintf(stderr,
                "warning: an MFU of %.1f%% is above 100%% of the peak used, %.4g FLOP/s a chip "
                "(%s): another number format, sparse peak or chip count?\n",
                100 * mfu, pl_ask_get(ask, "flops_per_s"), pl_peak_name(ask->peak));
}

static const pl_ask_option train_options[] = {
    {"params", "params", "parameters, where no --model says them"},
    {"tokens", "tokens", "of the whole run"},
    {"batch", "batch_tokens", "tokens of a step"},
    {"chips", "chips", "chips"},
    {"mfu", "mfu", "share of the peak (0.4); default 1, the bound"},
    {"seq", "T", "sequence length"},
    {"price", "price_usd_per_hour", "of a chip, USD an hour"},
    {0},
};
static const char *const train_formulas[] = {"train_time", NULL};

pl_status pl_plan_train_time(int argc, char **argv)
{
    static const pl_ask_command command = {
        .usage = "--model M --hw H --chips N --tokens T [NAME=NUMBER...]",
        .about = "FLOPs, days and cost of a training run at a share of the peak.",
        .options = train_options,
        .formulas = train_formulas,
    };
    pl_ask ask;
    const pl_status status = pl_ask_parse(&command, argc, argv, &ask);

    if (status != PL_OK || ask.done)
        return status;
    warn_of_mfu(&ask, pl_ask_get(&ask, "mfu"));
    return answer_all(&ask, train_formulas);
}

static const pl_ask_option mfu_options[] = {
    {"params", "params", "parameters, where no --model says them"},
    {"tokens", "tokens", "of the whole run, with chip_hours"},
    {"chip-hours", "chip_hours", "of the whole run"},
    {"tokens-per-s", "tokens_per_s", "of all chips together"},
    {"chips", "chips", "chips (1: tokens-per-s is of one)"},
    {"step", "step_s", "seconds of a step, with --batch"},
    {"batch", "batch_tokens", "tokens of a step"},
    {"seq", "T", "sequence length, for --flops causal or full"},
    {0},
};
static const char *const mfu_formulas[] = {"mfu", NULL};

pl_status pl_plan_mfu(int argc, char **argv)
{
    static const pl_ask_command command = {
        .usage = "--model M --hw H --tokens-per-s R [NAME=NUMBER...]",
        .about = "The share of the peak that a run uses: from tokens/s, a step's time, or "
                 "chip-hours.",
        .options = mfu_options,
        .formulas = mfu_formulas,
    };
    pl_ask ask;
    const pl_status status = pl_ask_parse(&command, argc, argv, &ask);

    if (status != PL_OK || ask.done)
        return status;
    const double mfu = pl_formula_value(
        "mfu", "mfu", "params", pl_ask_get(&ask, "params"), "tokens", pl_ask_get(&ask, "tokens"),
        "chip_hours", pl_ask_get(&ask, "chip_hours"), "flops_per_s",
        pl_ask_get(&ask, "flops_per_s"), "tokens_per_s", pl_ask_get(&ask, "tokens_per_s"), "chips",
        pl_given(pl_ask_get(&ask, "chips"), 1), "train_flops_per_token",
        pl_ask_get(&ask, "train_flops_per_token"), "step_s", pl_ask_get(&ask, "step_s"),
        "batch_tokens", pl_ask_get(&ask, "batch_tokens"), NULL);
    warn_of_mfu(&ask, mfu);
    return answer_all(&ask, mfu_formulas);
}

/* --- bounds --- */

static const pl_ask_option bound_options[] = {
    {"batch", "B", "tokens of a step, all chips"},
    {"chips", "N", "chips in all"},
    {"dp", "X", "chips over which data, or FSDP's weights, are split"},
    {"tp", "Y", "chips over which activations and weights are split"},
    {"axes", "axes", "torus axes that a collective uses at once"},
    {"pods", "pods", "pods joined by the data-centre network"},
    {"chips-per-pod", "chips_per_pod", "chips of a pod"},
    {"experts", "Z", "chips over which experts are split"},
    {"stages", "stages", "pipeline stages"},
    {"microbatches", "microbatches", "microbatches of a step"},
    {0},
};
static const char *const bound_formulas[] = {
    "data_parallel", "tensor_parallel", "fsdp_tp",    "layer_bytes", "layer_compute",
    "cross_pod",     "expert_parallel", "two_levels", "pipeline",    NULL};

/* Whether the question has to do with formula `f`. */
static bool is_asked(const pl_ask *ask, const char *f)
{
    if (strcmp(f, "expert_parallel") == 0)
        return pl_ask_is_given(ask, "Z") || pl_ask_get(ask, "k") > 1;
    if (strcmp(f, "pipeline") == 0)
        return pl_ask_is_given(ask, "stages");
    if (strcmp(f, "cross_pod") == 0)
        return !isnan(pl_ask_get(ask, "dcn_bytes_per_s")) ||
               !isnan(pl_ask_get(ask, "host_egress_bytes_per_s"));
    return true;
}

/* Over how many chips weights are split: all that tp leaves; with fsdp_tp, the best where tp is not
 * said. */
static double data_ways(const pl_ask *ask, const char *f)
{
    const double Y = pl_ask_get(ask, "Y");

    if (isnan(Y) && strcmp(f, "fsdp_tp") == 0)
        return NAN;
    return pl_ask_get(ask, "N") / pl_given(Y, 1);
}

/* Over how many chips what formula `f` moves goes. */
static double ways_of(const pl_ask *ask, const char *f)
{
    if (strcmp(f, "tensor_parallel") == 0)
        return pl_ask_get(ask, "Y");
    if (strcmp(f, "expert_parallel") == 0)
        return pl_given(pl_ask_get(ask, "Z"), pl_ask_get(ask, "N"));
    return pl_ask_get(ask, strcmp(f, "data_parallel") == 0 ? "X" : "N");
}

/* On switches: inside a node a chip's port decides, beyond it the slower of that and its node's. */
static void know_network(pl_ask *ask, const char *f)
{
    const double chip = pl_ask_get(ask, "chip_bytes_per_s"),
                 node = pl_ask_get(ask, "node_bytes_per_s");
    const bool leaves = ways_of(ask, f) > pl_ask_get(ask, "chips_per_domain");

    if (!ask->has_hw || isnan(chip) || pl_ask_is_given(ask, "net_bytes_per_s"))
        return;
    pl_ask_know(ask, "net_bytes_per_s", leaves ? fmin(chip, node) : chip,
                leaves ? "between nodes" : "inside a node");
}

/* What a machine of switches is, in the book's inputs; none of its levels is an axis. */
static void know_switches(pl_ask *ask)
{
    static const char *const axes[] = {"M_X", "M_Y"};
    const double domain = pl_ask_get(ask, "chips_per_domain");

    if (!ask->has_hw || isnan(domain))
        return;
    if (!pl_ask_is_given(ask, "domain"))
        pl_ask_know(ask, "domain", domain, ask->hw_name);
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++)
        if (!pl_ask_is_given(ask, axes[i]))
            pl_ask_know(ask, axes[i], 1, "switches");
}

static pl_status answer_bounds(pl_ask *ask, json_t *root)
{
    const bool has_x = pl_ask_is_given(ask, "X");
    int n_answers = 0;

    know_switches(ask);

    for (int i = 0; bound_formulas[i] != NULL; i++) {
        if (!is_asked(ask, bound_formulas[i]))
            continue;
        if (!has_x)
            pl_ask_know(ask, "X", data_ways(ask, bound_formulas[i]), "chips / tp");
        know_network(ask, bound_formulas[i]);
        if (pl_ask_answer(ask, bound_formulas[i], false, root) == PL_OK)
            n_answers++;
        else
            pl_status_clear();
    }
    return n_answers > 0
               ? PL_OK
               : pl_refuse(PL_BAD_INPUT, "bounds: give a --model, or D and F, and a machine: --hw, "
                                         "or flops_per_s and net_bytes_per_s");
}

pl_status pl_plan_bounds(int argc, char **argv)
{
    static const pl_ask_command command = {
        .usage = "--model M --hw H --batch B --chips N [NAME=NUMBER...]",
        .about = "When each strategy is compute-bound: the book's inequalities with the numbers "
                 "put in, for the feed-forward block of a layer.",
        .options = bound_options,
        .formulas = bound_formulas,
    };
    pl_ask ask;
    pl_status status = pl_ask_parse(&command, argc, argv, &ask);

    if (status != PL_OK || ask.done)
        return status;
    if (!pl_ask_is_given(&ask, "N"))
        pl_ask_know(&ask, "N", NAN, "given"); /* not the model's heads */
    if (isnan(pl_ask_get(&ask, "chips_per_pod")) && !isnan(pl_ask_get(&ask, "pod_chips")))
        pl_ask_know(&ask, "chips_per_pod", pl_ask_get(&ask, "pod_chips"), ask.hw_name);
    json_t *root = ask.json ? json_object() : NULL;
    status = answer_bounds(&ask, root);
    if (status == PL_OK)
        pl_ask_print_json(root);
    else
        json_decref(root);
    return status;
}
