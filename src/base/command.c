#include "config.h"

#include "src/base/command.h"

#include "src/base/agree.h"
#include "src/base/finish.h"
#include "src/base/log.h"
#include "src/base/panic.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int pl_command_main(int argc, char **argv, pl_status (*run)(int argc, char **argv))
{
    int rank;

    PL_MPI(MPI_Init(&argc, &argv));
    PL_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    pl_log_set_rank(rank);
    const pl_status status = run(argc, argv);
    PL_MPI(MPI_Finalize());
    return (int)status;
}

/* A program's parser between two of ours: what all programs answer, and what none takes. */
enum { OWN, LEFT, N_PARTS };
enum { KEY_USAGE = 256 };

typedef struct {
    void *input; /* of the program's parser */
    pl_command_question asks;
    pl_status status;
} parsing;

static const struct argp_option questions[] = {
    {0, 0, 0, 0, "Help:", -1},
    {"help", '?', 0, 0, "this text", 0},
    {"usage", KEY_USAGE, 0, 0, "options in short", 0},
    {"version", 'V', 0, 0, "version", 0},
    {0},
};

static error_t take_question(int key, char *arg, struct argp_state *state)
{
    parsing *p = state->input;

    (void)arg;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[OWN] = p->input;
        state->child_inputs[LEFT] = p;
        return 0;
    case '?':
        p->asks = PL_ASKS_HELP;
        return 0;
    case KEY_USAGE:
        p->asks = PL_ASKS_USAGE;
        return 0;
    case 'V':
        p->asks = PL_ASKS_VERSION;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t refuse_word(int key, char *arg, struct argp_state *state)
{
    parsing *p = state->input;

    if (key != ARGP_KEY_ARG)
        return ARGP_ERR_UNKNOWN;
    p->status = pl_refuse(PL_BAD_INPUT, "'%s' is not an option; see --help", arg);
    return EINVAL;
}

static const struct argp left = {.parser = refuse_word};

/* children[] belongs to the caller: argp keeps pointers. */
static struct argp whole_parser(const struct argp *own, struct argp_child children[N_PARTS + 1])
{
    children[OWN] = (struct argp_child){.argp = own};
    children[LEFT] = (struct argp_child){.argp = &left};
    children[N_PARTS] = (struct argp_child){0};
    return (struct argp){.options = questions, .parser = take_question, .children = children};
}

pl_status pl_command_parse(const struct argp *parser, int argc, char **argv, void *input,
                           const pl_status *status, pl_command_asked *asked)
{
    const unsigned quiet = pl_log_rank() == 0 ? ARGP_NO_EXIT | ARGP_NO_HELP : ARGP_SILENT;
    struct argp_child children[N_PARTS + 1];
    const struct argp whole = whole_parser(parser, children);
    parsing p = {.input = input, .asks = PL_ASKS_NOTHING, .status = PL_OK};

    if (argp_parse(&whole, argc, argv, quiet, NULL, &p) == 0) {
        *asked = (pl_command_asked){p.asks, parser, argv[0]};
        return PL_OK;
    }
    if (*status != PL_OK)
        return *status;
    return p.status != PL_OK ? p.status : PL_BAD_INPUT;
}

pl_status pl_command_refuse_empty(const struct argp_option *table, int key)
{
    const struct argp_option *option = table;

    while (option->key != key)
        option++;
    return pl_refuse(PL_BAD_INPUT, "--%s: is empty; give a %s", option->name, option->arg);
}

pl_status pl_command_check_output(const char *flag, const char *path)
{
    FILE *file = path != NULL ? fopen(path, "a") : NULL;

    if (path != NULL && file == NULL)
        return pl_refuse(PL_BAD_INPUT, "%s: cannot write %s: %s", flag, path, strerror(errno));
    if (file != NULL)
        fclose(file);
    return PL_OK;
}

bool pl_command_answered(const pl_command_asked *asked)
{
    struct argp_child children[N_PARTS + 1];
    const struct argp whole = whole_parser(asked->parser, children);
    const char *slash = strrchr(asked->program, '/');
    char name[32];

    snprintf(name, sizeof name, "%s", slash != NULL ? slash + 1 : asked->program);
    if (pl_log_rank() == 0)
        switch (asked->question) {
        case PL_ASKS_VERSION:
            printf("%s\n", PACKAGE_STRING);
            break;
        case PL_ASKS_USAGE:
            argp_help(&whole, stdout, ARGP_HELP_USAGE, name);
            break;
        case PL_ASKS_HELP:
            argp_help(&whole, stdout, ARGP_HELP_STD_HELP & ~ARGP_HELP_EXIT_OK, name);
            break;
        case PL_ASKS_NOTHING:
            break;
        }
    return asked->question != PL_ASKS_NOTHING;
}

static pl_status agree(pl_status status)
{
    const int mine = status != PL_OK && pl_status_message()[0] == '\0';
    int all = mine;

    pl_mpi_all_reduce(MPI_COMM_WORLD, &all, 1, MPI_INT, MPI_MIN);
    if (all)
        return status;
    if (mine)
        pl_refuse(status, "an option is not understood; see --help");
    return pl_agree(MPI_COMM_WORLD, status);
}

bool pl_command_begins(pl_status *status, const pl_command_asked *asked)
{
    *status = agree(*status);
    return *status == PL_OK && !pl_command_answered(asked);
}

void pl_command_word(MPI_Comm comm, const char *given, const char *name, char *text, int size)
{
    const char *word = given != NULL ? given : getenv(name);
    MPI_Request request;

    snprintf(text, (size_t)size, "%s", word != NULL ? word : "");
    PL_MPI(MPI_Ibcast(text, size, MPI_CHAR, 0, comm, &request));
    pl_mpi_finish(&request, 1);
}
