#include "config.h"

#include "src/kernbench/options.h"

#include "src/base/command.h"
#include "src/base/parse.h"

#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum {
    KEY_KERNEL = 256,
    KEY_GROUP,
    KEY_DTYPE,
    KEY_SHAPE,
    KEY_SECONDS,
    KEY_VS,
    KEY_CSV,
    KEY_JSON,
    KEY_PLOT, /* words end here */
    KEY_CHECK,
};

static const struct argp_option option_table[] = {
    {0, 0, 0, 0, "What is measured:", 1},
    {"kernel", KEY_KERNEL, "LIST|all", 0,
     "kernels by how their names begin: matmul, attention, rmsnorm, rope, swiglu, xent, embed, "
     "add, accumulate, sum_squares, adamw, convert (default all)",
     0},
    {"group", KEY_GROUP, "LIST|all", 0,
     "square, model, small, skinny, weights (matmul); attention; cache, dram (the rest) (default "
     "all)",
     0},
    {"dtype", KEY_DTYPE, "LIST|all", 0, "f32, bf16 where the kernel has it (default all)", 0},
    {"shape", KEY_SHAPE, "N[,N...]", 0,
     "this shape of --kernel instead of the list: M,N,K of a matmul, T,B,N,K,H of attention, ...",
     0},
    {0, 0, 0, 0, "How:", 2},
    {"seconds", KEY_SECONDS, "S", 0,
     "for each point, all contenders together; five samples at least (default 0.5)", 0},
    {"check", KEY_CHECK, 0, 0, "verify every result against a reference in f64 before timing", 0},
    {"vs", KEY_VS, "LIST|all", 0,
     "openblas, onednn, blis: their products too, sample by sample in turn", 0},
    {0, 0, 0, 0, "What is kept:", 3},
    {"csv", KEY_CSV, "FILE", 0, "one line a point, with a heading (replaced if there)", 0},
    {"json", KEY_JSON, "FILE", 0, "JSON lines: machine, point, summary (replaced if there)", 0},
    {"plot", KEY_PLOT, "FILE", 0, "SVG: the roofline, each kernel a point", 0},
    {0, 0, 0, 0, 0, 0},
};

static const char description[] =
    "Time each kernel on one core, beside the roofline of this machine and other libraries.\v"
    "Examples:\n"
    "  ./kernbench --vs openblas,onednn --json kernels.jsonl --plot kernels.svg\n"
    "  ./kernbench --kernel matmul --dtype bf16 --group square --check\n"
    "  ./kernbench --kernel matmul_nt --shape 2048,512,1536 --vs all\n\n"
    "Exit status: 0 good, 1 wrong result, 2 bad options or output paths, 3 environment, 4 "
    "internal.";

typedef struct {
    pl_kernbench_options *options;
    pl_status status;
} parse_state;

/* Marks in asked[n] what a word means; false when it means nothing. */
typedef bool mark(const char *word, bool *asked);

static bool mark_kernels(const char *word, bool *asked)
{
    bool found = false;

    for (int i = 0; i < pl_n_kernels; i++)
        if (strncmp(pl_kernels[i].name, word, strlen(word)) == 0)
            asked[i] = found = true;
    return found;
}

static bool mark_groups(const char *word, bool *asked)
{
    for (int i = 0; i < PL_GROUP_OTHER; i++)
        if (strcmp(word, pl_group_name((pl_case_group)i)) == 0)
            return asked[i] = true;
    return false;
}

static bool mark_dtypes(const char *word, bool *asked)
{
    for (int i = 0; i < PL_N_DTYPES; i++)
        if (i != PL_I32 && strcmp(word, pl_dtype_short((pl_dtype)i)) == 0)
            return asked[i] = true;
    return false;
}

static bool mark_peers(const char *word, bool *asked)
{
    for (int i = 0; i < PL_N_PEERS; i++)
        if (strcmp(word, pl_peer_name((pl_peer)i)) == 0)
            return asked[i] = true;
    return false;
}

/* "a,b" or "all" */
static pl_status take_list(const char *flag, const char *arg, mark *words, const char *known,
                           bool *asked, int n)
{
    char text[512], *rest = text;

    if (snprintf(text, sizeof text, "%s", arg) >= (int)sizeof text)
        return pl_refuse(PL_BAD_INPUT, "%s: the list is too long", flag);
    for (int i = 0; i < n; i++)
        asked[i] = strcmp(arg, "all") == 0;
    if (strcmp(arg, "all") == 0)
        return PL_OK;
    for (char *word; (word = strsep(&rest, ",")) != NULL;)
        if (*word == '\0' || !words(word, asked))
            return pl_refuse(PL_BAD_INPUT, "%s: there is no '%s'; give some of %s, or all", flag,
                             word, known);
    return PL_OK;
}

static pl_status take_shape(const char *arg, pl_kernbench_options *o)
{
    char text[256], *rest = text;

    if (snprintf(text, sizeof text, "%s", arg) >= (int)sizeof text)
        return pl_refuse(PL_BAD_INPUT, "--shape: '%s' is too long", arg);
    o->n_sizes = 0;
    o->has_shape = true;
    for (char *word; (word = strsep(&rest, ",")) != NULL; o->n_sizes++) {
        if (o->n_sizes == PL_CASE_SIZES)
            return pl_refuse(PL_BAD_INPUT, "--shape: '%s' has more than %d sizes", arg,
                             PL_CASE_SIZES);
        const pl_status status =
            pl_parse_integer("--shape", word, 1, 1 << 30, &o->shape[o->n_sizes]);
        if (status != PL_OK)
            return status;
    }
    return PL_OK;
}

static pl_status take_word(int key, const char *arg, pl_kernbench_options *o)
{
    switch (key) {
    case KEY_KERNEL:
        return take_list("--kernel", arg, mark_kernels,
                         "matmul, attention, rmsnorm, rope, swiglu, xent, embed, add, accumulate, "
                         "sum_squares, adamw, convert",
                         o->kernel, PL_MOST_KERNELS);
    case KEY_GROUP:
        return take_list("--group", arg, mark_groups,
                         "square, model, small, skinny, weights, attention, cache, dram", o->group,
                         PL_N_GROUPS);
    case KEY_DTYPE:
        return take_list("--dtype", arg, mark_dtypes, "f32, bf16", o->dtype, PL_N_DTYPES);
    case KEY_SHAPE:
        return take_shape(arg, o);
    case KEY_SECONDS:
        return pl_parse_number("--seconds", arg, 0.001, 3600, &o->seconds);
    case KEY_VS:
        return take_list("--vs", arg, mark_peers, "openblas, onednn, blis", o->vs, PL_N_PEERS);
    case KEY_CSV:
        o->csv = arg;
        return PL_OK;
    case KEY_JSON:
        o->json = arg;
        return PL_OK;
    default: /* KEY_PLOT */
        o->plot = arg;
        return PL_OK;
    }
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    parse_state *ps = state->input;
    pl_kernbench_options *o = ps->options;

    if (key > UCHAR_MAX && key <= KEY_PLOT) {
        ps->status =
            arg[0] == '\0' ? pl_command_refuse_empty(option_table, key) : take_word(key, arg, o);
        return ps->status == PL_OK ? 0 : EINVAL;
    }
    switch (key) {
    case KEY_CHECK:
        o->check = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp parser = {option_table, parse_option, NULL, description, NULL, NULL, NULL};

/* --shape must fit each kernel that is asked for. */
static pl_status check_shape(const pl_kernbench_options *o)
{
    for (int i = 0; i < pl_n_kernels && o->has_shape; i++) {
        const pl_kernel *k = &pl_kernels[i];

        if (o->kernel[i] && k->n_sizes != o->n_sizes)
            return pl_refuse(PL_BAD_INPUT,
                             "--shape: %s wants %s, %d sizes, and there are %d; name one kernel by "
                             "--kernel",
                             k->name, k->sizes, k->n_sizes, o->n_sizes);
        if (o->kernel[i] && k->check != NULL && k->check(o->shape) != NULL)
            return pl_refuse(PL_BAD_INPUT, "--shape: %s: %s", k->name, k->check(o->shape));
    }
    return PL_OK;
}

pl_status pl_kernbench_options_parse(int argc, char **argv, pl_kernbench_options *options)
{
    pl_kernbench_options o = {.seconds = 0.5};
    parse_state state = {.options = &o};
    pl_status status;

    memset(o.kernel, true, sizeof o.kernel);
    memset(o.group, true, sizeof o.group);
    memset(o.dtype, true, sizeof o.dtype);
    status = pl_command_parse(&parser, argc, argv, &state, &state.status, &o.asked);
    if (status == PL_OK && o.asked.question == PL_ASKS_NOTHING)
        status = check_shape(&o);
    *options = o;
    return status;
}
