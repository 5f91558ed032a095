#include "config.h"

#include "src/plan/search_options.h"

#include "src/base/command.h"
#include "src/base/log.h"
#include "src/base/parse.h"
#include "src/plan/beyond.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    KEY_MODEL = 256,
    KEY_HW,
    KEY_CHIPS,
    KEY_BATCH,
    KEY_SEQ,
    KEY_DTYPE,
    KEY_STRATEGY,
    KEY_ZERO,
    KEY_MICRO_BATCH,
    KEY_REMAT,
    KEY_SCHEDULE,
    KEY_INTERLEAVE,
    KEY_TOP,
    KEY_EFFORT,
    KEY_TOKENS,
    KEY_EFFICIENCY,
    KEY_PRICE,
    KEY_MEASURED,
    KEY_VARY,
    KEY_PLOT,
    KEY_TRACE,
    KEY_STRAGGLER,
    KEY_SLOW_LINK,
    KEY_LOST,
    KEY_JSON,
    KEY_END,
};

static const struct argp_option option_table[] = {
    {0, 0, 0, 0, "What is trained:", 1},
    {"model", KEY_MODEL, "NAME|FILE", 0, "a preset (llama3-70b) or a config.json", 0},
    {"batch", KEY_BATCH, "TOKENS", 0, "a step, over all chips (default 4M)", 0},
    {"seq", KEY_SEQ, "T", 0, "tokens a sequence (default: the model's)", 0},
    {"dtype", KEY_DTYPE, "FORMAT", 0,
     "of products: bf16, fp16, f32, tf32, fp8 (default bf16; arrays are f32 for f32 and tf32, else "
     "of 2 bytes, with f32 gradients, moments and masters)",
     0},
    {"tokens", KEY_TOKENS, "N", 0, "to train on: days and cost", 0},
    {0, 0, 0, 0, "On what:", 2},
    {"hw", KEY_HW, "NAME|FILE", 0, "a machine: see `plan hardware`; this: the one at hand", 0},
    {"chips", KEY_CHIPS, "N", 0, "how many", 0},
    {"efficiency", KEY_EFFICIENCY, "typical|peak|M,A,B,N", 0,
     "shares of the peaks that matmul, attention, memory and network reach: typical of published "
     "runs (the default, where the machine's file has none of its own), peak (1, the book's "
     "bounds)",
     0},
    {"price", KEY_PRICE, "USD", 0, "of a chip and hour (default: the machine's)", 0},
    {0, 0, 0, 0, "How (chosen where left out):", 3},
    {"strategy", KEY_STRATEGY, "SPEC", 0, "dp, fsdp, cp, ep, tp, pp with degrees: fsdp:64+tp:8", 0},
    {"zero", KEY_ZERO, "0|1|2", 0, "ZeRO stage over dp", 0},
    {"micro-batch", KEY_MICRO_BATCH, "N", 0, "sequences a microbatch and rank", 0},
    {"remat", KEY_REMAT, "none|matmuls|block", 0,
     "what layers keep: all; what products give; their inputs, the rest computed again", 0},
    {"interleave", KEY_INTERLEAVE, "V", 0, "chunks of layers a stage, by formula (1: none)", 0},
    {"schedule", KEY_SCHEDULE, "gpipe|1f1b", 0, "of a pipeline (default 1f1b)", 0},
    {0, 0, 0, 0, "What is printed:", 4},
    {"top", KEY_TOP, "K", 0, "so many of the best plans, 1 to 16 (default 3)", 0},
    {"effort", KEY_EFFORT, "N", 0, "programs to price at the most (default 100)", 0},
    {"vary", KEY_VARY, "batch|chips", 0, "the best plan over a range of it", 0},
    {"plot", KEY_PLOT, "FILE.svg", 0, "that curve as a picture", 0},
    {"measured-step", KEY_MEASURED, "S", 0, "a step that was measured: its MFU and the error", 0},
    {"json", KEY_JSON, 0, 0, "one JSON object, units in its keys", 0},
    {0, 0, 0, 0, "plan simulate, what if:", 5},
    {"trace", KEY_TRACE, "FILE", 0, "the pipeline's slots as a Chrome trace, for Perfetto", 0},
    {"straggler", KEY_STRAGGLER, "STAGE:FACTOR", 0, "this stage takes so many times as long", 0},
    {"slow-link", KEY_SLOW_LINK, "FACTOR", 0, "messages between stages take so many times as long",
     0},
    {"lost-chips", KEY_LOST, "N", 0, "plan again without so many chips", 0},
    {0, 0, 0, 0, 0, 0},
};

static const char description[] =
    "Which mesh and strategy train a model fastest on a machine, by prediction from the program "
    "that would run.\v"
    "Example:\n"
    "  plan --model llama3-70b --hw tpu-v5p --chips 8960 --batch 4M --seq 8192 --tokens 15T\n\n"
    "Numbers accept K, M, G, T (powers of 1000) and Ki, Mi, Gi, Ti.";

typedef struct {
    pl_search_command *c;
    const char *typed[KEY_END - KEY_MODEL]; /* each option's word, by key; NULL: not given */
    pl_status status;
} parse_state;

static const char *typed(const parse_state *ps, int key)
{
    return ps->typed[key - KEY_MODEL];
}

static pl_status set_straggler(const char *arg, pl_search_command *c)
{
    const char *colon = strchr(arg, ':');
    char stage[24];
    int64_t n = 0;
    pl_status status;

    if (colon == NULL || colon - arg >= (int)sizeof stage)
        return pl_refuse(PL_BAD_INPUT, "--straggler: \"%s\" is not STAGE:FACTOR", arg);
    snprintf(stage, sizeof stage, "%.*s", (int)(colon - arg), arg);
    status = pl_parse_integer("--straggler", stage, 0, INT_MAX, &n);
    c->straggler = (int)n;
    if (status == PL_OK)
        status = pl_parse_number("--straggler", colon + 1, 1e-3, 1e6, &c->straggle_factor);
    return status;
}

static pl_status set_integer(const char *flag, const char *arg, int64_t least, int64_t most,
                             int *to)
{
    int64_t n;
    const pl_status status = pl_parse_integer(flag, arg, least, most, &n);

    if (status == PL_OK)
        *to = (int)n;
    return status;
}

/* Options by what they are of: each function takes its own, and leaves other keys (false). */
static bool set_search(int key, const char *arg, parse_state *ps)
{
    static const char *const remats[] = {"none", "block", "matmuls"};
    pl_search_options *o = &ps->c->search;

    switch (key) {
    case KEY_CHIPS:
        ps->status = pl_parse_integer("--chips", arg, 1, INT_MAX, &o->chips);
        return true;
    case KEY_SEQ:
        ps->status = pl_parse_integer("--seq", arg, 1, 1 << 24, &o->seq);
        return true;
    case KEY_ZERO:
        ps->status = set_integer("--zero", arg, 0, 2, &o->zero);
        return true;
    case KEY_MICRO_BATCH:
        ps->status = pl_parse_integer("--micro-batch", arg, 1, 1 << 24, &o->micro_batch);
        return true;
    case KEY_REMAT:
        ps->status = pl_parse_word("--remat", arg, remats, PL_N_REMATS, &o->remat);
        return true;
    case KEY_SCHEDULE:
        ps->status = pl_pipeline_parse(arg, &o->pipeline);
        return true;
    case KEY_INTERLEAVE:
        ps->status = set_integer("--interleave", arg, 1, 1024, &o->interleave);
        return true;
    case KEY_EFFORT:
        ps->status = set_integer("--effort", arg, 1, INT_MAX, &o->effort);
        return true;
    case KEY_TOP:
        ps->status = set_integer("--top", arg, 1, PL_MAX_PLANS, &o->n_plans);
        return true;
    default:
        return false;
    }
}

static bool set_number(int key, const char *arg, parse_state *ps)
{
    pl_search_command *c = ps->c;
    int64_t n = 0;

    switch (key) {
    case KEY_BATCH:
        ps->status = pl_parse_integer("--batch", arg, 1, INT64_MAX / 2, &n);
        c->batch_tokens = (double)n;
        return true;
    case KEY_TOKENS:
        ps->status = pl_parse_integer("--tokens", arg, 1, INT64_MAX / 2, &n);
        c->train_tokens = (double)n;
        return true;
    case KEY_PRICE:
        ps->status = pl_parse_number("--price", arg, 1e-9, 1e9, &c->price_usd);
        return true;
    case KEY_MEASURED:
        ps->status = pl_parse_number("--measured-step", arg, 1e-9, 1e9, &c->measured_step_s);
        return true;
    case KEY_STRAGGLER:
        ps->status = set_straggler(arg, c);
        return true;
    case KEY_SLOW_LINK:
        ps->status = pl_parse_number("--slow-link", arg, 1e-3, 1e6, &c->link_factor);
        return true;
    case KEY_LOST:
        ps->status = set_integer("--lost-chips", arg, 1, INT_MAX, &c->lost_chips);
        return true;
    default:
        return false;
    }
}

static bool set_word(int key, const char *arg, parse_state *ps)
{
    static const char *const ranges[] = {"batch", "chips"};
    pl_search_command *c = ps->c;
    int at = 0;

    switch (key) {
    case KEY_MODEL:
        c->model = arg;
        return true;
    case KEY_HW:
        c->hw = arg;
        return true;
    case KEY_DTYPE:
        c->dtype = arg;
        return true;
    case KEY_STRATEGY:
    case KEY_EFFICIENCY:
        return true; /* read when model and machine are known */
    case KEY_VARY:
        ps->status = pl_parse_word("--vary", arg, ranges, 2, &at);
        c->vary = at == 0 ? PL_VARY_BATCH : PL_VARY_CHIPS;
        return true;
    case KEY_PLOT:
        c->plot = arg;
        return true;
    case KEY_TRACE:
        c->trace = arg;
        return true;
    case KEY_JSON:
        c->json = true;
        return true;
    default:
        return false;
    }
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    parse_state *ps = state->input;

    if (key >= KEY_MODEL && key < KEY_END) {
        if (arg != NULL && arg[0] == '\0') {
            ps->status = pl_command_refuse_empty(option_table, key);
            return EINVAL;
        }
        ps->typed[key - KEY_MODEL] = arg;
    }
    if (!set_search(key, arg, ps) && !set_number(key, arg, ps) && !set_word(key, arg, ps))
        return ARGP_ERR_UNKNOWN;
    return ps->status == PL_OK ? 0 : EINVAL;
}

static const struct argp parser = {option_table, parse_option, NULL, description, NULL, NULL, NULL};

int64_t pl_sequences_of(double tokens, int64_t seq, bool *rounded)
{
    const double exact = tokens / (double)seq;

    *rounded = fmod(exact, 1) != 0;
    for (double power = 1 << 20; power >= 2 && *rounded; power /= 2) {
        const double nearest = power * floor(exact / power + 0.5);

        if (nearest > 0 && fabs(nearest / exact - 1) <= 0.05)
            return (int64_t)nearest;
    }
    return exact < 1 ? 1 : (int64_t)(exact + 0.5);
}

/* Programs are of LLaMA-like models: others are planned as the nearest one, and what they are more
 * or less is added by formula (plan/beyond.h). */
static pl_status find_model(const char *name, pl_search_options *o)
{
    pl_architecture *a = &o->architecture;
    const pl_status status = pl_architecture_find(name, a);

    if (status != PL_OK)
        return status;
    pl_stand_in(a, &o->model);
    if (a->n_experts == 0 && a->kv_rank == 0 && a->gated && !a->layer_norm && !a->learned_positions)
        a->n_layers = 0; /* the program's own */
    return PL_OK;
}

static pl_status set_efficiency(const char *text, pl_efficiency *e)
{
    static const pl_efficiency peak = {1, 1, 1, 1};
    double *const figures[4] = {&e->matmul, &e->attention, &e->memory, &e->network};
    const char *at = text;
    char word[32];
    pl_status status = PL_OK;

    if (text == NULL && memcmp(e, &peak, sizeof peak) != 0)
        return PL_OK; /* the machine's own */
    if (text == NULL || strcmp(text, "typical") == 0)
        *e = pl_efficiency_typical;
    else if (strcmp(text, "peak") == 0)
        *e = peak;
    if (text == NULL || strcmp(text, "typical") == 0 || strcmp(text, "peak") == 0)
        return PL_OK;
    for (int i = 0; i < 4 && status == PL_OK; i++) {
        const int length = (int)strcspn(at, ",");

        snprintf(word, sizeof word, "%.*s", length, at);
        if (length == 0)
            return pl_refuse(PL_BAD_INPUT,
                             "--efficiency: \"%s\" is neither typical nor peak, nor "
                             "four shares (matmul,attention,memory,network)",
                             text);
        status = pl_parse_number("--efficiency: typical, peak, or four shares M,A,B,N", word, 1e-3,
                                 1, figures[i]);
        at += length + (at[length] == ',');
    }
    if (status == PL_OK && *at != '\0')
        status = pl_refuse(PL_BAD_INPUT, "--efficiency: \"%s\" is more than four shares", text);
    return status;
}

static pl_status find_peak(pl_search_command *c)
{
    const char *name = c->dtype != NULL ? c->dtype : "bf16";

    c->peak = pl_peak_find(name);
    if (c->peak == PL_N_PEAKS)
        return pl_refuse(PL_BAD_INPUT,
                         "--dtype: there is no \"%s\"; there are f32, tf32, bf16, "
                         "fp16, fp8, int8, fp4",
                         name);
    if (c->dtype == NULL && !(c->search.hw.chip.peak_flops_per_s[c->peak] > 0) &&
        c->search.hw.chip.peak_flops_per_s[PL_PEAK_FP16] > 0)
        c->peak = PL_PEAK_FP16;
    c->search.dtype = pl_peak_bytes(c->peak) > 2 ? PL_F32 : PL_BF16;
    return pl_hardware_machine(&c->search.hw, c->peak, &c->search.machine);
}

/* --hw this: what train has of its own is passed on; its batch counts sequences. */
static pl_status complete_here(const parse_state *ps, pl_search_command *c)
{
    static const struct {
        int key;
        const char *flag;
    } passed[] = {{KEY_MODEL, "--model"},      {KEY_SEQ, "--seq"},
                  {KEY_DTYPE, "--dtype"},      {KEY_STRATEGY, "--strategy"},
                  {KEY_ZERO, "--zero"},        {KEY_MICRO_BATCH, "--micro-batch"},
                  {KEY_SCHEDULE, "--schedule"}},
      refused[] = {{KEY_REMAT, "--remat"},
                   {KEY_INTERLEAVE, "--interleave"},
                   {KEY_VARY, "--vary"},
                   {KEY_PLOT, "--plot"},
                   {KEY_TOKENS, "--tokens"},
                   {KEY_PRICE, "--price"},
                   {KEY_EFFICIENCY, "--efficiency"},
                   {KEY_MEASURED, "--measured-step"},
                   {KEY_EFFORT, "--effort"},
                   {KEY_TOP, "--top"}};

    if (c->simulate)
        return pl_refuse(PL_BAD_INPUT, "plan simulate: --hw this is for ./train --trace");
    if (c->batch_tokens > 0 && c->search.seq == 0)
        return pl_refuse(PL_BAD_INPUT, "--batch: with --hw this give --seq too");
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (typed(ps, refused[i].key) != NULL)
            return pl_refuse(PL_BAD_INPUT,
                             "%s: goes with the machines of `plan hardware`, not with --hw this",
                             refused[i].flag);
    c->here = (pl_here){.n_ranks = c->search.chips, .json = c->json};
    pl_here_option(&c->here, "--compare", "all");
    c->here.words[c->here.n_words++] = "--dry-run";
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        pl_here_option(&c->here, passed[i].flag, typed(ps, passed[i].key));
    if (c->batch_tokens > 0) {
        snprintf(c->here_batch, sizeof c->here_batch, "%.0f",
                 fmax(1, floor(c->batch_tokens / (double)c->search.seq)));
        pl_here_option(&c->here, "--batch", c->here_batch);
    }
    return PL_OK;
}

static pl_status complete(const parse_state *ps, pl_search_command *c)
{
    pl_search_options *o = &c->search;
    const char *strategy = typed(ps, KEY_STRATEGY);
    pl_status status;

    if (c->model == NULL || c->hw == NULL || o->chips == 0)
        return pl_refuse(PL_BAD_INPUT, "plan: give --model, --hw and --chips; see --help");
    c->is_here = strcmp(c->hw, "this") == 0;
    if (c->is_here)
        return complete_here(ps, c);
    if (c->batch_tokens == 0)
        c->batch_tokens = 4e6;
    status = find_model(c->model, o);
    if (status == PL_OK)
        status = pl_hardware_find(c->hw, &o->hw);
    if (status == PL_OK)
        status = set_efficiency(typed(ps, KEY_EFFICIENCY), &o->hw.efficiency);
    if (status == PL_OK)
        status = find_peak(c);
    if (status == PL_OK && strategy != NULL)
        status = pl_candidate_parse(strategy, o);
    if (status != PL_OK)
        return status;
    o->peak_flops_per_s = o->hw.chip.peak_flops_per_s[c->peak];
    if (o->seq == 0)
        o->seq = o->model.max_seq;
    o->sequences = pl_sequences_of(c->batch_tokens, o->seq, &c->rounded);
    if (c->price_usd == 0)
        c->price_usd = o->hw.chip.price_usd_per_hour;
    if (c->plot != NULL && c->vary == PL_VARY_NOTHING)
        return pl_refuse(PL_BAD_INPUT, "--plot: goes with --vary batch or --vary chips");
    return PL_OK;
}

pl_status pl_search_options_parse(int argc, char **argv, bool simulate, pl_search_command *c)
{
    parse_state ps = {.c = c};
    pl_command_asked asked;
    pl_status status;

    *c = (pl_search_command){.search = {.zero = PL_AUTO,
                                        .remat = PL_AUTO,
                                        .pipeline = PL_1F1B,
                                        .interleave = simulate ? 1 : PL_AUTO,
                                        .effort = 100,
                                        .n_plans = simulate ? 1 : 3},
                             .straggler = -1,
                             .straggle_factor = 1,
                             .link_factor = 1,
                             .simulate = simulate};
    status = pl_command_parse(&parser, argc, argv, &ps, &ps.status, &asked);
    if (status != PL_OK)
        return status;
    c->done = pl_command_answered(&asked);
    return c->done ? PL_OK : complete(&ps, c);
}
