#include "config.h"

#include "src/collbench/options.h"

#include "src/base/command.h"
#include "src/base/parse.h"

#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_OP = 256,
    KEY_MESH,
    KEY_AXIS,
    KEY_ALGO,
    KEY_VS,
    KEY_RANKS,
    KEY_HOSTS,
    KEY_CSV,
    KEY_JSON,
    KEY_PLOT,
    KEY_MACHINE, /* words end here */
    KEY_OFF_CACHE,
    KEY_FRESH,
    KEY_OVERLAP,
    KEY_RACE,
    KEY_PRINT_SCHEDULE,
    KEY_RECALIBRATE,
};

static const struct argp_option option_table[] = {
    {0, 0, 0, 0, "What is measured:", 1},
    {"op", KEY_OP, "LIST|all", 0,
     "all_gather, reduce_scatter, all_reduce, all_to_all, permute, broadcast (default all)", 0},
    {"minbytes", 'b', "SIZE", 0, "least bytes of the whole array (default 1K)", 0},
    {"maxbytes", 'e', "SIZE", 0, "most bytes (default 64M)", 0},
    {"stepbytes", 'i', "SIZE", 0, "from size to size by so many bytes more", 0},
    {"stepfactor", 'f', "N", 0, "from size to size by this factor (default 4)", 0},
    {"datatype", 'd', "LIST|all", 0, "float, bfloat16, int32 (default float)", 0},
    {"redop", 'o', "LIST|all", 0, "sum, max: of reduce_scatter and all_reduce (default sum)", 0},
    {0, 0, 0, 0, "Among which ranks, by which algorithm:", 2},
    {"mesh", KEY_MESH, "SPEC", 0,
     "axes, outermost first: dp:2+tp:2 (default: one axis of all ranks)", 0},
    {"axis", KEY_AXIS, "NAME[,NAME]", 0,
     "groups along these axes, all at once, side by side (default: all axes, one group)", 0},
    {"algo", KEY_ALGO, "OP=NAME[,...]", 0,
     "algorithms to use instead of those with the lowest predicted time (default: what the "
     "environment's PURLIN_ALGO says)",
     0},
    {0, 0, 0, 0, "How:", 3},
    {"iters", 'n', "N", 0,
     "samples, of which the median counts; a sample is a loop of calls that lasts at least 1 ms "
     "(default 20)",
     0},
    {"warmup", 'w', "N", 0, "calls before the first sample (default 5)", 0},
    {"check", 'c', "0|1|off|on", 0, "verify results before timing and after it (default 1)", 0},
    {"off-cache", KEY_OFF_CACHE, 0, 0, "rotate through buffers, so that data come from memory", 0},
    {"fresh", KEY_FRESH, 0, 0,
     "each rank writes its input again before each call, as a training step does; that is not "
     "timed, waiting for those who write longer is",
     0},
    {"vs", KEY_VS, "mpi", 0, "the MPI library's own collectives too, sample by sample in turn", 0},
    {"overlap", KEY_OVERLAP, 0, 0,
     "how much of the time hides behind a matmul of about the same length", 0},
    {"race", KEY_RACE, 0, 0,
     "time every algorithm that applies: predicted and measured crossovers, regret of the choice",
     0},
    {0, 0, 0, 0, "A picture instead of a measurement:", 4},
    {"print-schedule", KEY_PRINT_SCHEDULE, 0, 0,
     "who sends and reads what when, round by round, for --op at --minbytes", 0},
    {"ranks", KEY_RANKS, "N", 0, "as if there were N ranks (default: as many as there are)", 0},
    {"hosts", KEY_HOSTS, "N", 0, "on N hosts, dealt in order (default 1)", 0},
    {0, 0, 0, 0, "What is kept:", 5},
    {"csv", KEY_CSV, "FILE", 0, "one line a point, with a heading (replaced if there)", 0},
    {"json", KEY_JSON, "FILE", 0, "JSON lines: point, summary (replaced if there)", 0},
    {"plot", KEY_PLOT, "FILE", 0, "SVG: busbw over size, beside limit, prediction and MPI", 0},
    {"machine", KEY_MACHINE, "FILE", 0, "machine file for predictions (skips calibration)", 0},
    {"recalibrate", KEY_RECALIBRATE, 0, 0, "measure the machine again instead of using the cache",
     0},
    {0, 0, 0, 0, 0, 0},
};

static const char description[] =
    "Time collectives over MPI and shared memory, each beside its prediction and its limit.\v"
    "Examples:\n"
    "  mpirun -np 2 ./collbench -b 1K -e 64M -f 2 --vs mpi\n"
    "  mpirun -np 8 ./collbench --op all_reduce --mesh dp:2+tp:4 --axis tp\n"
    "  mpirun -np 4 ./collbench --op all_gather --race\n"
    "  ./collbench --print-schedule --op all_gather --ranks 8 --algo all_gather=ring\n\n"
    "Sizes accept K, M, G, powers of 1024 as in nccl-tests (so do Ki, Mi, Gi). Exit status: 0 "
    "good, 1 wrong result, 2 bad options or output paths, 3 environment, 4 internal.";

static const int64_t most_bytes = INT64_C(1) << 42, most_samples = 1000000, most_ranks = 4096;

/* The words of an option, and where to note which were given. */
typedef struct {
    const char *flag;
    const char *const *words; /* [n], several may mean the same */
    const int *means;         /* [n] */
    int n;
    const char *known; /* for the message */
} word_list;

static const char *const dtype_words[] = {"float", "float32", "f32", "bfloat16",
                                          "bf16",  "int32",   "i32", "int"};
static const int dtype_means[] = {PL_F32, PL_F32, PL_F32, PL_BF16, PL_BF16, PL_I32, PL_I32, PL_I32};
static const word_list dtype_list = {"--datatype", dtype_words, dtype_means, 8,
                                     "float, bfloat16, int32"};
static const char *const reduction_words[] = {"sum", "max"};
static const int reduction_means[] = {PL_SUM, PL_MAX};
static const word_list reduction_list = {"--redop", reduction_words, reduction_means, 2,
                                         "sum, max"};

static int find_word(const word_list *list, const char *word)
{
    if (list == NULL) { /* collectives know their names themselves */
        const pl_collective c = pl_collective_find(word);
        return c == PL_N_COLLECTIVES ? -1 : (int)c;
    }
    for (int i = 0; i < list->n; i++)
        if (strcmp(word, list->words[i]) == 0)
            return list->means[i];
    return -1;
}

/* "a,b" or "all"; list NULL: collectives. */
static pl_status take_list(const word_list *list, const char *arg, bool *asked, int n)
{
    const char *flag = list != NULL ? list->flag : "--op";
    const char *known =
        list != NULL ? list->known
                     : "all_gather, reduce_scatter, all_reduce, all_to_all, permute, broadcast";
    char text[256], *rest = text;

    if (snprintf(text, sizeof text, "%s", arg) >= (int)sizeof text)
        return pl_refuse(PL_BAD_INPUT, "%s: the list is too long", flag);
    for (int i = 0; i < n; i++)
        asked[i] = strcmp(arg, "all") == 0;
    if (strcmp(arg, "all") == 0)
        return PL_OK;
    for (char *word; (word = strsep(&rest, ",")) != NULL;) {
        const int found = find_word(list, word);
        if (found < 0)
            return pl_refuse(PL_BAD_INPUT, "%s: there is no '%s'; give some of %s, or all", flag,
                             word, known);
        asked[found] = true;
    }
    return PL_OK;
}

/* nccl-tests' K, M and G are powers of 1024. */
static pl_status take_size(const char *flag, const char *arg, int64_t least, int64_t *bytes)
{
    const size_t n = strlen(arg);
    char text[64];

    if (n > 0 && n + 2 < sizeof text && strchr("KMG", arg[n - 1]) != NULL) {
        snprintf(text, sizeof text, "%si", arg);
        arg = text;
    }
    return pl_parse_integer(flag, arg, least, most_bytes, bytes);
}

static pl_status take_check(const char *arg, bool *check)
{
    pl_status status = PL_OK;
    int64_t n = strcmp(arg, "on") == 0;

    if (isdigit((unsigned char)arg[0]))
        status = pl_parse_integer("--check", arg, 0, most_samples, &n);
    else if (n == 0 && strcmp(arg, "off") != 0)
        status = pl_refuse(PL_BAD_INPUT, "--check: '%s' is none of 0, 1, off and on", arg);
    *check = n != 0;
    return status;
}

typedef struct {
    pl_bench_options *options;
    pl_status status;
} parse_state;

/* Options by kind: each function takes its own, and leaves other keys (false). */
static bool set_number(int key, const char *arg, parse_state *ps)
{
    pl_bench_options *o = ps->options;

    switch (key) {
    case 'b':
        ps->status = take_size("--minbytes", arg, 0, &o->min_bytes);
        return true;
    case 'e':
        ps->status = take_size("--maxbytes", arg, 0, &o->max_bytes);
        return true;
    case 'i':
        ps->status = take_size("--stepbytes", arg, 1, &o->step_bytes);
        return true;
    case 'f':
        ps->status = pl_parse_integer("--stepfactor", arg, 2, 1024, &o->step_factor);
        return true;
    case 'n':
        ps->status = pl_parse_integer("--iters", arg, 1, most_samples, &o->n_samples);
        return true;
    case 'w':
        ps->status = pl_parse_integer("--warmup", arg, 0, most_samples, &o->n_warmup);
        return true;
    case KEY_RANKS:
        ps->status = pl_parse_integer("--ranks", arg, 1, most_ranks, &o->n_ranks);
        return true;
    case KEY_HOSTS:
        ps->status = pl_parse_integer("--hosts", arg, 1, most_ranks, &o->n_hosts);
        return true;
    default:
        return false;
    }
}

static bool set_list(int key, const char *arg, parse_state *ps)
{
    pl_bench_options *o = ps->options;

    switch (key) {
    case 'c':
        ps->status = take_check(arg, &o->check);
        return true;
    case 'd':
        ps->status = take_list(&dtype_list, arg, o->dtype, PL_N_DTYPES);
        return true;
    case 'o':
        ps->status = take_list(&reduction_list, arg, o->reduction, PL_N_REDUCTIONS);
        return true;
    case KEY_OP:
        ps->status = take_list(NULL, arg, o->op, PL_N_COLLECTIVES);
        return true;
    case KEY_VS:
        o->vs_mpi = true;
        if (strcmp(arg, "mpi") != 0)
            ps->status = pl_refuse(PL_BAD_INPUT, "--vs: '%s' is not mpi", arg);
        return true;
    default:
        return false;
    }
}

static bool set_word(int key, const char *arg, parse_state *ps)
{
    pl_bench_options *o = ps->options;
    const char **to = key == KEY_MESH      ? &o->mesh
                      : key == KEY_AXIS    ? &o->axis
                      : key == KEY_ALGO    ? &o->algo
                      : key == KEY_CSV     ? &o->csv
                      : key == KEY_JSON    ? &o->json
                      : key == KEY_PLOT    ? &o->plot
                      : key == KEY_MACHINE ? &o->machine
                                           : NULL;

    if (to != NULL)
        *to = arg;
    return to != NULL;
}

static bool set_switch(int key, parse_state *ps)
{
    pl_bench_options *o = ps->options;
    bool *to = key == KEY_OFF_CACHE        ? &o->off_cache
               : key == KEY_FRESH          ? &o->fresh
               : key == KEY_OVERLAP        ? &o->overlap
               : key == KEY_RACE           ? &o->race
               : key == KEY_PRINT_SCHEDULE ? &o->print_schedule
               : key == KEY_RECALIBRATE    ? &o->recalibrate
                                           : NULL;

    if (to != NULL)
        *to = true;
    return to != NULL;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    parse_state *ps = state->input;

    if (arg != NULL && arg[0] == '\0' && key > UCHAR_MAX && key <= KEY_MACHINE)
        ps->status = pl_command_refuse_empty(option_table, key);
    else if (!set_number(key, arg, ps) && !set_list(key, arg, ps) && !set_word(key, arg, ps) &&
             !set_switch(key, ps))
        return ARGP_ERR_UNKNOWN;
    return ps->status == PL_OK ? 0 : EINVAL;
}

static const struct argp parser = {option_table, parse_option, NULL, description, NULL, NULL, NULL};

/* Sizes that were not given are set to suit those that were; what cannot go together is refused. */
static pl_status complete(pl_bench_options *o)
{
    if (o->min_bytes < 0)
        o->min_bytes = o->max_bytes >= 0 && o->max_bytes < 1024 ? o->max_bytes : 1024;
    if (o->max_bytes < 0)
        o->max_bytes = o->print_schedule || o->min_bytes > 64 << 20 ? o->min_bytes : 64 << 20;
    if (o->min_bytes > o->max_bytes)
        return pl_refuse(PL_BAD_INPUT, "--minbytes: %lld is more than --maxbytes %lld",
                         (long long)o->min_bytes, (long long)o->max_bytes);
    if (o->step_bytes > 0 && o->step_factor > 0)
        return pl_refuse(PL_BAD_INPUT, "--stepbytes, --stepfactor: give one of them");
    if (o->step_factor == 0)
        o->step_factor = 4;
    if (!o->print_schedule && (o->n_ranks > 0 || o->n_hosts > 0))
        return pl_refuse(PL_BAD_INPUT, "--ranks, --hosts: are for --print-schedule only; start "
                                       "ranks by mpirun -np N ./collbench");
    if (o->race && (o->vs_mpi || o->overlap || o->plot != NULL))
        return pl_refuse(PL_BAD_INPUT, "--race: goes without --vs, --overlap and --plot");
    if (o->race && o->algo != NULL)
        return pl_refuse(PL_BAD_INPUT, "--race: times every algorithm; leave --algo out");
    return PL_OK;
}

pl_status pl_bench_options_parse(int argc, char **argv, pl_bench_options *options)
{
    pl_bench_options o = {.dtype = {[PL_F32] = true},
                          .reduction = {[PL_SUM] = true},
                          .min_bytes = -1,
                          .max_bytes = -1,
                          .n_samples = 20,
                          .n_warmup = 5,
                          .check = true};
    parse_state state = {.options = &o};
    pl_status status = PL_OK;

    for (int c = 0; c < PL_N_COLLECTIVES; c++)
        o.op[c] = true;
    status = pl_command_parse(&parser, argc, argv, &state, &state.status, &o.asked);
    if (status == PL_OK && o.asked.question == PL_ASKS_NOTHING)
        status = complete(&o);
    *options = o;
    return status;
}

int64_t pl_bench_next_bytes(const pl_bench_options *o, int64_t bytes)
{
    if (o->step_bytes > 0)
        return bytes + o->step_bytes;
    return bytes > 0 ? bytes * o->step_factor : 1;
}
