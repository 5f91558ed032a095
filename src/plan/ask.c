#include "config.h"

#include "src/plan/ask.h"

#include "src/base/command.h"
#include "src/base/panic.h"
#include "src/base/parse.h"
#include "src/roofline/quantities.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- numbers by name --- */

double pl_ask_get(const pl_ask *ask, const char *name)
{
    return pl_quantity_get(ask->known, ask->n, name);
}

const char *pl_ask_source(const pl_ask *ask, const char *name)
{
    for (int i = 0; i < ask->n; i++)
        if (strcmp(ask->known[i].name, name) == 0)
            return ask->source[i];
    return NULL;
}

bool pl_ask_is_given(const pl_ask *ask, const char *name)
{
    const char *source = pl_ask_source(ask, name);

    return source != NULL && strcmp(source, "given") == 0;
}

static void learn(pl_ask *ask, const char *name, double value, const char *source)
{
    if (pl_ask_source(ask, name) != NULL)
        return;
    PL_ASSERT(ask->n < PL_ASK_MOST);
    snprintf(ask->known[ask->n].name, sizeof ask->known[ask->n].name, "%.*s", PL_QUANTITY_NAME - 1,
             name);
    ask->known[ask->n].value = value;
    ask->source[ask->n++] = source;
}

void pl_ask_know(pl_ask *ask, const char *name, double value, const char *source)
{
    for (int i = 0; i < ask->n; i++)
        if (strcmp(ask->known[i].name, name) == 0) {
            ask->known[i].value = value;
            ask->source[i] = source;
            return;
        }
    learn(ask, name, value, source);
}

/* --- options --- */

enum {
    KEY_MODEL = 256,
    KEY_HW,
    KEY_DTYPE,
    KEY_WEIGHT_DTYPE,
    KEY_KV_DTYPE,
    KEY_FLOPS,
    KEY_JSON,
    KEY_QUANTITY
};

static const struct argp_option common[] = {
    {"model", KEY_MODEL, "NAME|FILE", 0, "a model preset, or a Hugging Face config.json", 1},
    {"hw", KEY_HW, "NAME|FILE", 0, "a machine of `plan hardware`, or a file like those", 1},
    {"dtype", KEY_DTYPE, "FORMAT", 0, "of products and arrays: bf16 (default), int8, fp8, f32, ...",
     1},
    {"weight-dtype", KEY_WEIGHT_DTYPE, "FORMAT", 0, "of weights, where it is another", 1},
    {"kv-dtype", KEY_KV_DTYPE, "FORMAT", 0, "of cached keys and values, where it is another", 1},
    {"flops", KEY_FLOPS, "RULE", 0,
     "of training with --model: 6n (default: 6 x active parameters), palm (that, and attention to "
     "all T keys), full (products, and attention to all T), causal (to the T/2 that are seen)",
     1},
    {"json", KEY_JSON, 0, 0, "one JSON object, units in its keys", 1},
};
enum { N_COMMON = sizeof common / sizeof *common, MOST_OPTIONS = 40 };

typedef struct {
    const pl_ask_command *command;
    pl_ask *ask;
    double weight_bytes, kv_bytes; /* NaN: not given */
    pl_flops_convention flops;
    pl_status status;
} parsing;

static pl_status parse_format(const char *flag, const char *text, pl_peak *peak, double *bytes)
{
    *peak = pl_peak_find(text);
    if (*peak == PL_N_PEAKS && strcmp(text, "int4") == 0) {
        *bytes = 0.5;
        return PL_OK;
    }
    if (*peak == PL_N_PEAKS)
        return pl_refuse(
            PL_BAD_INPUT,
            "%s: \"%s\" is no format: give f32, tf32, bf16, fp16, fp8, int8, fp4, int4", flag,
            text);
    *bytes = pl_peak_bytes(*peak);
    return PL_OK;
}

/* A number, with K, M, G, T, P (thousands) or Ki, Mi, ... after it. */
static bool parse_value(const char *text, double *value)
{
    static const char letters[] = "KMGTP";
    char *end;
    const double x = strtod(text, &end);

    if (end == text || !isfinite(x))
        return false;
    *value = x;
    if (*end == '\0')
        return true;
    const char *letter = strchr(letters, *end);
    if (letter == NULL || (end[1] != '\0' && strcmp(end + 1, "i") != 0))
        return false;
    *value = x * pow(end[1] == 'i' ? 1024 : 1000, (double)(letter - letters + 1));
    return isfinite(*value);
}

static bool formula_takes(const pl_formula *f, const char *name)
{
    pl_quantity in[PL_FORMULA_MOST];

    return pl_quantity_set(in, pl_formula_inputs(f, in), name, 0);
}

static bool is_quantity(const pl_ask_command *command, const char *name)
{
    if (command->formulas == NULL) {
        for (int i = 0; pl_formula_at(i) != NULL; i++)
            if (formula_takes(pl_formula_at(i), name))
                return true;
        return false;
    }
    for (int i = 0; command->formulas[i] != NULL; i++)
        if (formula_takes(pl_formula_find(command->formulas[i]), name))
            return true;
    for (const pl_ask_option *o = command->options; o != NULL && o->flag != NULL; o++)
        if (strcmp(o->quantity, name) == 0)
            return true;
    return false;
}

static pl_status refuse_quantity(const pl_ask_command *command, const char *name)
{
    char known[2048] = "";
    size_t n = 0;

    for (int i = 0; command->formulas != NULL && command->formulas[i] != NULL; i++)
        n += (size_t)snprintf(known + n, n < sizeof known ? sizeof known - n : 0, "\n  %s: %s",
                              command->formulas[i], pl_formula_find(command->formulas[i])->inputs);
    return pl_refuse(PL_BAD_INPUT, "no quantity is called \"%s\"%s%s", name,
                     known[0] != '\0' ? "; there are:" : "", known);
}

/* Sizes, rates and times are more than 0, but for those of which there may be none: what a formula
 * takes for 0 where it is not given (a latency), what is a yes or no, and what only the command
 * knows, which looks itself. */
static bool may_be_zero(const char *name)
{
    static const char *const flags[] = {"wrap", "gated", "tensors_D", "weights"};
    bool is_known = false;

    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (strcmp(flags[i], name) == 0)
            return true;
    for (int i = 0; pl_formula_at(i) != NULL; i++) {
        pl_quantity in[PL_FORMULA_MOST];
        const int n = pl_formula_inputs(pl_formula_at(i), in);

        for (int k = 0; k < n; k++) {
            if (strcmp(in[k].name, name) != 0)
                continue;
            is_known = true;
            if (in[k].value == 0)
                return true;
        }
    }
    return !is_known;
}

static pl_status check_range(const char *name, const char *called, double value, const char *text)
{
    if (value > 0 || (value == 0 && may_be_zero(name)))
        return PL_OK;
    return pl_refuse(PL_BAD_INPUT, "%s: %s is out of range: give %s", called, text,
                     may_be_zero(name) ? "0 or more" : "more than 0");
}

/* `called`: what the user calls it. */
static pl_status give(parsing *p, const char *name, const char *called, const char *text)
{
    double value;

    if (!is_quantity(p->command, name))
        return refuse_quantity(p->command, name);
    if (!parse_value(text, &value))
        return pl_refuse(PL_BAD_INPUT,
                         "%s: \"%s\" is not a number (K, M, G, T, P, or Ki, Mi, ... may follow)",
                         called, text);
    const pl_status status = check_range(name, called, value, text);
    if (status == PL_OK)
        pl_ask_know(p->ask, name, value, "given");
    return status;
}

static pl_status take_argument(parsing *p, const char *text)
{
    const char *equals = strchr(text, '=');
    char name[PL_QUANTITY_NAME];

    if (equals != NULL) {
        snprintf(name, sizeof name, "%.*s", (int)(equals - text), text);
        return give(p, name, name, equals + 1);
    }
    if (p->ask->n_words == p->command->most_words || p->ask->n_words == PL_ASK_WORDS)
        return pl_refuse(PL_BAD_INPUT, "\"%s\" is not understood: give NAME=NUMBER", text);
    p->ask->words[p->ask->n_words++] = text;
    return PL_OK;
}

static pl_status take_flops(parsing *p, const char *arg)
{
    static const char *const names[] = {[PL_FLOPS_CAUSAL] = "causal",
                                        [PL_FLOPS_FULL] = "full",
                                        [PL_FLOPS_6N] = "6n",
                                        [PL_FLOPS_PALM] = "palm"};

    int at = PL_FLOPS_6N;
    const pl_status status =
        pl_parse_word("--flops", arg, names, (int)(sizeof names / sizeof *names), &at);

    p->flops = (pl_flops_convention)at;
    return status;
}

static pl_status take_dtype(pl_ask *ask, const char *arg)
{
    double bytes;
    const pl_status status = parse_format("--dtype", arg, &ask->peak, &bytes);

    ask->has_dtype = true;
    return status == PL_OK && ask->peak == PL_N_PEAKS
               ? pl_refuse(PL_BAD_INPUT,
                           "--dtype: no machine multiplies in %s; --weight-dtype may be it", arg)
               : status;
}

static pl_status take_option(parsing *p, int key, const char *arg)
{
    pl_ask *ask = p->ask;
    const pl_ask_option *option;
    char called[PL_QUANTITY_NAME + 2];
    pl_peak other;

    switch (key) {
    case KEY_MODEL:
        ask->model_name = arg;
        return PL_OK;
    case KEY_HW:
        ask->hw_name = arg;
        return PL_OK;
    case KEY_DTYPE:
        return take_dtype(ask, arg);
    case KEY_FLOPS:
        return take_flops(p, arg);
    case KEY_WEIGHT_DTYPE:
        return parse_format("--weight-dtype", arg, &other, &p->weight_bytes);
    case KEY_KV_DTYPE:
        ask->has_kv_dtype = true;
        return parse_format("--kv-dtype", arg, &other, &p->kv_bytes);
    default:
        option = &p->command->options[key - KEY_QUANTITY];
        snprintf(called, sizeof called, "--%s", option->flag);
        return give(p, option->quantity, called, arg);
    }
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    parsing *p = state->input;

    switch (key) {
    case KEY_JSON:
        p->ask->json = true;
        return 0;
    case ARGP_KEY_ARG:
        p->status = take_argument(p, arg);
        break;
    default:
        if (key < KEY_MODEL || key >= KEY_QUANTITY + MOST_OPTIONS)
            return ARGP_ERR_UNKNOWN;
        p->status = take_option(p, key, arg);
    }
    return p->status == PL_OK ? 0 : EINVAL;
}

/* Common options and the command's, as argp wants them. */
static void fill_options(const pl_ask_command *command,
                         struct argp_option table[N_COMMON + MOST_OPTIONS + 1])
{
    int n = 0;

    for (int i = 0; i < N_COMMON; i++)
        table[n++] = common[i];
    for (int i = 0; command->options != NULL && command->options[i].flag != NULL; i++) {
        PL_ASSERT(i < MOST_OPTIONS);
        table[n++] = (struct argp_option){
            command->options[i].flag, KEY_QUANTITY + i, "NUMBER", 0, command->options[i].what, 2};
    }
    table[n] = (struct argp_option){0};
}

/* What a command says of its formulas: text, inputs and outputs. */
static void describe(const pl_ask_command *command, char *text, size_t size)
{
    size_t n = (size_t)snprintf(text, size, "%s", command->about);

    for (int i = 0; command->formulas != NULL && command->formulas[i] != NULL && n < size; i++) {
        const pl_formula *f = pl_formula_find(command->formulas[i]);

        n += (size_t)snprintf(
            text + n, size - n, "%s%s (section %d): %s.\n  %s\n  in:  %s\n  out: %s\n\n",
            i == 0 ? "\v" : "", f->name, f->section, f->what, f->text, f->inputs, f->outputs);
    }
}

/* --- model and machine --- */

static void learn_all(pl_ask *ask, const pl_quantity *quantities, int n, const char *source)
{
    for (int i = 0; i < n; i++)
        learn(ask, quantities[i].name, quantities[i].value, source);
}

static pl_status find_all(pl_ask *ask, pl_flops_convention flops)
{
    pl_quantity quantities[PL_QUANTITIES_MOST];
    pl_status status = PL_OK;
    int n;

    if (ask->hw_name != NULL) {
        pl_machine unused; /* refuses a format that the chip lacks */

        status = pl_hardware_find(ask->hw_name, &ask->hw);
        if (status == PL_OK && ask->has_dtype)
            status = pl_hardware_machine(&ask->hw, ask->peak, &unused);
        if (status == PL_OK)
            status = pl_hardware_quantities(&ask->hw, ask->peak, quantities, &n);
        if (status != PL_OK)
            return status;
        learn_all(ask, quantities, n, ask->hw_name);
        ask->has_hw = true;
    }
    if (ask->model_name != NULL) {
        status = pl_architecture_find(ask->model_name, &ask->model);
        if (status != PL_OK)
            return status;
        n = pl_architecture_quantities(&ask->model, ask->kv_bytes, quantities);
        learn_all(ask, quantities, n, ask->model_name);
        ask->has_model = true;
        learn(ask, "train_flops_per_token",
              pl_architecture_train_flops(&ask->model, pl_ask_get(ask, "T"), flops),
              ask->model_name);
    }
    return status;
}

static void learn_formats(parsing *p)
{
    pl_ask *ask = p->ask;
    const double bytes = pl_peak_bytes(ask->peak);
    const char *source = "--dtype";

    ask->weight_bytes = pl_given(p->weight_bytes, bytes);
    ask->kv_bytes = pl_given(p->kv_bytes, bytes);
    if (ask->has_dtype) {
        learn(ask, "x_bytes", bytes, source);
        learn(ask, "y_bytes", bytes, source);
    }
    if (ask->has_dtype || !isnan(p->weight_bytes)) {
        learn(ask, "w_bytes", ask->weight_bytes, "--weight-dtype");
        learn(ask, "bytes_per_param", ask->weight_bytes, "--weight-dtype");
    }
    if (ask->has_dtype || ask->has_kv_dtype)
        learn(ask, "bytes_per_element", ask->has_kv_dtype ? ask->kv_bytes : bytes, source);
}

pl_status pl_ask_parse(const pl_ask_command *command, int argc, char **argv, pl_ask *ask)
{
    struct argp_option options[N_COMMON + MOST_OPTIONS + 1];
    char text[8192];
    parsing p = {
        .command = command, .ask = ask, .weight_bytes = NAN, .kv_bytes = NAN, .flops = PL_FLOPS_6N};

    *ask = (pl_ask){.peak = PL_PEAK_BF16};
    fill_options(command, options);
    describe(command, text, sizeof text);
    const struct argp parser = {options, parse_option, command->usage, text, NULL, NULL, NULL};
    pl_command_asked asked;
    const pl_status status = pl_command_parse(&parser, argc, argv, &p, &p.status, &asked);
    if (status != PL_OK)
        return status;
    ask->done = pl_command_answered(&asked);
    if (ask->done)
        return PL_OK;
    learn_formats(&p);
    return find_all(ask, p.flops);
}
