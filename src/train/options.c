#include "config.h"

#include "src/train/options.h"

#include "src/base/command.h"
#include "src/base/parse.h"

#include <argp.h>
#include <errno.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_STRATEGY = 256,
    KEY_ZERO,
    KEY_SCHEDULE,
    KEY_MODEL,
    KEY_INIT,
    KEY_SAVE,
    KEY_DATA,
    KEY_ORDER,
    KEY_BATCH,
    KEY_MICRO_BATCH,
    KEY_DTYPE,
    KEY_SEQ,
    KEY_STEPS,
    KEY_LR,
    KEY_LR_SCHEDULE,
    KEY_WARMUP,
    KEY_WEIGHT_DECAY,
    KEY_BETA1,
    KEY_BETA2,
    KEY_EPS,
    KEY_CLIP,
    KEY_SEED,
    KEY_EVAL_EVERY,
    KEY_EVAL_ONLY,
    KEY_LOG,
    KEY_TRACE,
    KEY_PRINT,
    KEY_DRY_RUN,
    KEY_EXPLAIN,
    KEY_COMPARE,
    KEY_AGAINST,
    KEY_WITHIN,
    KEY_MACHINE,
    KEY_MATMUL,
    KEY_ALGO,
    KEY_CHECK,
    KEY_TIED,
    KEY_UNTIED,
    KEY_RECALIBRATE,
};

static const struct argp_option option_table[] = {
    {0, 0, 0, 0, "How the step is run:", 1},
    {"strategy", KEY_STRATEGY, "SPEC", 0,
     "dp, fsdp, tp, pp or any composition, e.g. fsdp+tp or dp:2+fsdp:2+tp:2; degrees left out are "
     "chosen by predicted step time (default dp)",
     0},
    {"zero", KEY_ZERO, "0|1|2", 0,
     "ZeRO stage of dp: shard moments (1), gradients too (2) "
     "(default 0; stage 3 is fsdp)",
     0},
    {"schedule", KEY_SCHEDULE, "gpipe|1f1b", 0, "pipeline schedule (default 1f1b)", 0},
    {"batch", KEY_BATCH, "N", 0, "sequences a step, over all ranks (default 8)", 0},
    {"micro-batch", KEY_MICRO_BATCH, "N", 0,
     "sequences a microbatch and data-parallel rank; the last may be smaller (default: all of a "
     "rank's share; with pp, that share over twice the stages)",
     0},
    {"dtype", KEY_DTYPE, "f32|bf16", 0,
     "type of activations and working weights; with bf16, products accumulate in f32, and "
     "gradients, moments and master weights stay f32 (default f32)",
     0},
    {"algo", KEY_ALGO, "OP=NAME,...", 0,
     "use this algorithm for a collective, where it applies (default: PURLIN_ALGO from the "
     "environment; else the one predicted to be the fastest)",
     0},
    {"check", KEY_CHECK, 0, 0,
     "compare what ranks do in every collective, look for non-finite "
     "numbers after every operation",
     0},
    {"matmul", KEY_MATMUL, "auto|own|openblas", 0,
     "which matrix product to use (default auto: of f32 products, shape by shape, the faster by a "
     "trial of a second or two, kept beside the calibration, so that later runs have the same bits; "
     "our own where it cannot be kept, with --machine or a forced PURLIN_ISA, but on a CPU for "
     "which we have no tile)",
     0},
    {0, 0, 0, 0, "What is trained on what:", 2},
    {"model", KEY_MODEL, "NAME|FILE", 0,
     "tiny, small, base, or a Hugging Face LLaMA config.json (default: that of --init, else small)",
     0},
    {"tied", KEY_TIED, 0, 0, "one array for embedding and output head", 0},
    {"untied", KEY_UNTIED, 0, 0, "an output head of its own", 0},
    {"init", KEY_INIT, "FILE", 0,
     "start from a llama2.c .bin or a model.safetensors with its "
     "config.json beside it",
     0},
    {"save", KEY_SAVE, "DIR", 0,
     "write config.json and model.safetensors (Hugging Face names) at "
     "the end",
     0},
    {"data", KEY_DATA, "FILE", 0,
     "text, bytes as tokens, or a .bin of llm.c's token format "
     "(default: synthetic text of known entropy)",
     0},
    {"order", KEY_ORDER, "random|sequential", 0, "where sequences start (default random)", 0},
    {"seq", KEY_SEQ, "T", 0, "tokens a sequence (default: the model's)", 0},
    {"steps", KEY_STEPS, "N", 0, "optimizer steps (default 50)", 0},
    {"seed", KEY_SEED, "N", 0, "of weights and sequence starts (default 1)", 0},
    {0, 0, 0, 0, "Optimizer (AdamW; decay on tensors of two or more dims):", 3},
    {"lr", KEY_LR, "X", 0, "peak learning rate (default 1e-3)", 0},
    {"lr-schedule", KEY_LR_SCHEDULE, "cosine|constant", 0,
     "after warm-up: cosine down to a tenth, or constant (default cosine)", 0},
    {"warmup", KEY_WARMUP, "N", 0, "steps of linear warm-up (default a tenth of the steps)", 0},
    {"weight-decay", KEY_WEIGHT_DECAY, "X", 0, "(default 0.1)", 0},
    {"beta1", KEY_BETA1, "X", 0, "(default 0.9)", 0},
    {"beta2", KEY_BETA2, "X", 0, "(default 0.95)", 0},
    {"eps", KEY_EPS, "X", 0, "(default 1e-8)", 0},
    {"clip", KEY_CLIP, "X", 0, "limit of the global gradient norm, 0 for none (default 1)", 0},
    {0, 0, 0, 0, "Evaluation:", 4},
    {"eval-every", KEY_EVAL_EVERY, "N", 0,
     "every N steps, mean loss over the validation split, the last 5% of the data (default 0: "
     "never, "
     "and no split)",
     0},
    {"eval-only", KEY_EVAL_ONLY, 0, 0,
     "no training: mean loss over the full, non-overlapping windows of --seq from token 0", 0},
    {0, 0, 0, 0, "What is printed and kept:", 5},
    {"print", KEY_PRINT, "all", OPTION_ARG_OPTIONAL,
     "print the step in the book's notation and exit (--print=all: every layer)", 0},
    {"compare", KEY_COMPARE, "K|all", 0,
     "predict every strategy that --strategy leaves open (default pp+dp+fsdp+tp), run the K best, "
     "and the best with most dp, fsdp, tp, pp, in turn, --steps times (default 5); --dry-run: only "
     "predict",
     0},
    {"explain", KEY_EXPLAIN, "measure", OPTION_ARG_OPTIONAL,
     "print the book's inequalities for this machine, model and batch, and which side we are on "
     "(--explain measure: then run short steps around where they change sides instead of training)",
     0},
    {"against", KEY_AGAINST, "SPEC", 0,
     "with --explain measure: around the batch at which this strategy takes as long", 0},
    {"within", KEY_WITHIN, "SECONDS", 0, "the most that --explain measure may take (default 120)", 0},
    {"dry-run", KEY_DRY_RUN, 0, 0, "print header, prediction and memory; run nothing", 0},
    {"log", KEY_LOG, "FILE", 0, "JSON lines: run, step, eval, op, summary (replaced if there)", 0},
    {"trace", KEY_TRACE, "FILE", 0, "Chrome trace JSON of all ranks, for Perfetto", 0},
    {"machine", KEY_MACHINE, "FILE", 0, "machine file for predictions (skips calibration)", 0},
    {"recalibrate", KEY_RECALIBRATE, 0, 0, "measure the machine again instead of using the cache",
     0},
    {0, 0, 0, 0, 0, 0},
};

static const char every_strategy[] = "pp+dp+fsdp+tp";

static const char description[] =
    "Train a LLaMA-like transformer over MPI, each operation beside its prediction.\v"
    "Examples:\n"
    "  mpirun -np 8 ./train --strategy fsdp+tp --data text.txt\n"
    "  mpirun -np 4 ./train --strategy pp:2+dp:2 --micro-batch 1 --print\n"
    "  ./train --init stories.bin --data stories.txt --eval-only --seq 256\n\n"
    "Sizes accept K, M, G (powers of 1000) and Ki, Mi, Gi. Exit status: 0 good, 1 wrong result (a "
    "non-finite loss), 2 bad "
    "options, input or output paths, 3 environment, 4 internal.";

/* Bounds that keep products (steps x sequences x tokens) far from the ends of int64_t. */
static const int64_t most_sequences = INT64_C(1) << 24, most_tokens = INT64_C(1) << 24,
                     most_steps = INT64_C(1) << 30;

static const char *const dtypes[] = {"f32", "bf16"}, *const orders[] = {"random", "sequential"},
                  *const lr_schedules[] = {"cosine", "constant"},
                  *const matmuls[] = {[PL_MATMUL_AUTO] = "auto",
                                      [PL_MATMUL_OWN] = "own",
                                      [PL_MATMUL_OPENBLAS] = "openblas"};

/* Options by heading: each function takes those of one, and leaves other keys (false). */
typedef struct {
    pl_options *options;
    bool has_strategy, has_steps;
    pl_status status;
} parse_state;

static pl_status set_strategy(const char *arg, pl_spec *spec)
{
    const int zero = spec->zero;
    const pl_status status = pl_spec_parse(arg, spec);

    spec->zero = zero;
    return status;
}

static bool set_how(int key, const char *arg, parse_state *ps)
{
    pl_options *o = ps->options;
    int64_t n = o->spec.zero;
    int at = 0;

    switch (key) {
    case KEY_STRATEGY:
        ps->has_strategy = true;
        ps->status = set_strategy(arg, &o->spec);
        return true;
    case KEY_ZERO:
        ps->status = pl_parse_integer("--zero", arg, 0, 2, &n);
        o->spec.zero = (int)n;
        return true;
    case KEY_SCHEDULE:
        ps->status = pl_pipeline_parse(arg, &o->pipeline);
        return true;
    case KEY_BATCH:
        ps->status = pl_parse_integer("--batch", arg, 1, most_sequences, &o->batch);
        return true;
    case KEY_MICRO_BATCH:
        ps->status = pl_parse_integer("--micro-batch", arg, 1, most_sequences, &o->micro_batch);
        return true;
    case KEY_DTYPE:
        ps->status = pl_parse_word("--dtype", arg, dtypes, 2, &at);
        o->dtype = at == 1 ? PL_BF16 : PL_F32;
        return true;
    case KEY_ALGO:
        o->algo = arg;
        return true;
    case KEY_CHECK:
        o->check = true;
        return true;
    case KEY_MATMUL:
        ps->status = pl_parse_word("--matmul", arg, matmuls, 3, &at);
        o->matmul = (pl_matmul_choice)at;
        return true;
    default:
        return false;
    }
}

static bool set_what(int key, const char *arg, parse_state *ps)
{
    pl_options *o = ps->options;
    int64_t n = 0;
    int at = 0;

    switch (key) {
    case KEY_MODEL:
        o->model = arg;
        return true;
    case KEY_TIED:
    case KEY_UNTIED:
        o->tied = key == KEY_TIED;
        return true;
    case KEY_INIT:
        o->init = arg;
        return true;
    case KEY_SAVE:
        o->save = arg;
        return true;
    case KEY_DATA:
        o->data = arg;
        return true;
    case KEY_ORDER:
        ps->status = pl_parse_word("--order", arg, orders, 2, &at);
        o->order = at == 1 ? PL_ORDER_SEQUENTIAL : PL_ORDER_RANDOM;
        return true;
    case KEY_SEQ:
        ps->status = pl_parse_integer("--seq", arg, 1, most_tokens, &o->seq);
        return true;
    case KEY_STEPS:
        ps->has_steps = true;
        ps->status = pl_parse_integer("--steps", arg, 0, most_steps, &o->steps);
        return true;
    case KEY_SEED:
        ps->status = pl_parse_integer("--seed", arg, 0, INT64_MAX, &n);
        o->seed = (uint64_t)n;
        return true;
    default:
        return false;
    }
}

static bool set_optimizer(int key, const char *arg, parse_state *ps)
{
    const double below_one = 1 - FLT_EPSILON / 2; /* the update is done in f32 */
    pl_options *o = ps->options;
    int at = 0;

    switch (key) {
    case KEY_LR:
        ps->status = pl_parse_number("--lr", arg, FLT_MIN, 1e30, &o->lr);
        return true;
    case KEY_LR_SCHEDULE:
        ps->status = pl_parse_word("--lr-schedule", arg, lr_schedules, 2, &at);
        o->lr_constant = at == 1;
        return true;
    case KEY_WARMUP:
        ps->status = pl_parse_integer("--warmup", arg, 0, most_steps, &o->warmup);
        return true;
    case KEY_WEIGHT_DECAY:
        ps->status = pl_parse_number("--weight-decay", arg, 0, 1e6, &o->adamw.weight_decay);
        return true;
    case KEY_BETA1:
        ps->status = pl_parse_number("--beta1", arg, 0, below_one, &o->adamw.beta1);
        return true;
    case KEY_BETA2:
        ps->status = pl_parse_number("--beta2", arg, 0, below_one, &o->adamw.beta2);
        return true;
    case KEY_EPS:
        ps->status = pl_parse_number("--eps", arg, FLT_MIN, 1, &o->adamw.eps);
        return true;
    case KEY_CLIP:
        ps->status = pl_parse_number("--clip", arg, 0, 1e30, &o->clip);
        return true;
    default:
        return false;
    }
}

static bool set_evaluation(int key, const char *arg, parse_state *ps)
{
    pl_options *o = ps->options;

    switch (key) {
    case KEY_EVAL_EVERY:
        ps->status = pl_parse_integer("--eval-every", arg, 0, most_steps, &o->eval_every);
        return true;
    case KEY_EVAL_ONLY:
        o->eval_only = true;
        return true;
    default:
        return false;
    }
}

static pl_status set_print(const char *arg, pl_options *o)
{
    o->print = true;
    o->print_all = arg != NULL;
    if (arg != NULL && strcmp(arg, "all") != 0)
        return pl_refuse(PL_BAD_INPUT, "--print: '%s' is not all", arg);
    return PL_OK;
}

static pl_status set_compare(const char *arg, pl_options *o)
{
    if (strcmp(arg, "all") != 0)
        return pl_parse_integer("--compare", arg, 1, PL_COMPARE_ALL, &o->compare);
    o->compare = PL_COMPARE_ALL;
    return PL_OK;
}

static pl_status set_explain(const char *arg, pl_options *o)
{
    o->explain = true;
    o->measure = arg != NULL && strcmp(arg, "measure") == 0;
    if (arg != NULL && !o->measure)
        return pl_refuse(PL_BAD_INPUT, "--explain: '%s' is not measure", arg);
    return PL_OK;
}

static bool set_output(int key, const char *arg, parse_state *ps)
{
    pl_options *o = ps->options;

    switch (key) {
    case KEY_PRINT:
        ps->status = set_print(arg, o);
        return true;
    case KEY_COMPARE:
        ps->status = set_compare(arg, o);
        return true;
    case KEY_EXPLAIN:
        ps->status = set_explain(arg, o);
        return true;
    case KEY_AGAINST:
        o->against = arg;
        return true;
    case KEY_WITHIN:
        ps->status = pl_parse_number("--within", arg, 1, 1e6, &o->within_s);
        return true;
    case KEY_DRY_RUN:
        o->dry_run = true;
        return true;
    case KEY_LOG:
        o->log = arg;
        return true;
    case KEY_TRACE:
        o->trace = arg;
        return true;
    case KEY_MACHINE:
        o->machine = arg;
        return true;
    case KEY_RECALIBRATE:
        o->recalibrate = true;
        return true;
    default:
        return false;
    }
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    parse_state *ps = state->input;
    pl_options *o = ps->options;

    if (arg != NULL && arg[0] == '\0' && key > UCHAR_MAX && key < KEY_TIED)
        ps->status = pl_command_refuse_empty(option_table, key);
    else if (key == ARGP_KEY_ARG && o->explain && !o->measure && strcmp(arg, "measure") == 0)
        o->measure = true; /* --explain measure */
    else if (!set_how(key, arg, ps) && !set_what(key, arg, ps) && !set_optimizer(key, arg, ps) &&
             !set_evaluation(key, arg, ps) && !set_output(key, arg, ps))
        return ARGP_ERR_UNKNOWN;
    return ps->status == PL_OK ? 0 : EINVAL;
}

static const struct argp parser = {option_table, parse_option, NULL, description, NULL, NULL, NULL};

/* What --compare takes where it is not given, and what it does not go with. */
static pl_status complete_compare(const parse_state *ps, pl_options *o)
{
    const int zero = o->spec.zero;
    pl_status status = PL_OK;

    if (o->save != NULL || o->trace != NULL || o->eval_only || o->eval_every > 0 || o->print ||
        o->explain)
        return pl_refuse(PL_BAD_INPUT, "--compare: goes without --save, --trace, --print, "
                                       "--explain, --eval-every and --eval-only");
    if (!ps->has_steps)
        o->steps = 5;
    if (o->steps < 1 || o->steps > PL_COMPARE_STEPS)
        return pl_refuse(PL_BAD_INPUT, "--compare: takes --steps from 1 to %d", PL_COMPARE_STEPS);
    if (!ps->has_strategy)
        status = pl_spec_parse(every_strategy, &o->spec);
    o->spec.zero = zero;
    return status;
}

/* --explain measure trains nothing to keep. */
static pl_status check_measure(const pl_options *o)
{
    if (o->against != NULL && !o->measure)
        return pl_refuse(PL_BAD_INPUT, "--against: is for --explain measure");
    if (o->measure && (o->save != NULL || o->trace != NULL || o->eval_only || o->print))
        return pl_refuse(PL_BAD_INPUT, "--explain: measure goes without --save, --trace, --print "
                                       "and --eval-only");
    return PL_OK;
}

pl_status pl_options_parse(int argc, char **argv, pl_options *options)
{
    pl_options o = {.pipeline = PL_1F1B,
                    .batch = 8,
                    .tied = -1,
                    .steps = 50,
                    .seed = 1,
                    .adamw = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1},
                    .lr = 1e-3,
                    .warmup = -1,
                    .clip = 1,
                    .within_s = 120,
                    .argc = argc,
                    .argv = argv};
    parse_state state = {.options = &o};
    pl_status status = pl_spec_parse("dp", &o.spec);

    if (status == PL_OK)
        status = pl_command_parse(&parser, argc, argv, &state, &state.status, &o.asked);
    if (status == PL_OK && o.compare > 0)
        status = complete_compare(&state, &o);
    if (status == PL_OK)
        status = check_measure(&o);
    *options = o;
    return status;
}

double pl_options_lr(const pl_options *o, int64_t step)
{
    const int64_t warmup = o->warmup >= 0 ? o->warmup : o->steps / 10;

    if (step < warmup)
        return o->lr * (double)(step + 1) / (double)warmup;
    if (o->lr_constant)
        return o->lr;
    const double done = (double)(step - warmup) / (double)(o->steps - warmup);
    const double least = 0.1 * o->lr;
    return least + 0.5 * (o->lr - least) * (1 + cos(3.14159265358979323846 * done));
}
