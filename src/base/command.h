/* command -- what every program of purlin does around its own work: MPI and log at both ends,
 * options by argp that one rank speaks about, words from the environment. */
#ifndef PURLIN_BASE_COMMAND_H
#define PURLIN_BASE_COMMAND_H

#include "src/base/status.h"

#include <argp.h>
#include <mpi.h>
#include <stdbool.h>

/** main() of a program: MPI_Init, run(), MPI_Finalize; returns the exit code. run() is collective
 * over MPI_COMM_WORLD. */
int pl_command_main(int argc, char **argv, pl_status (*run)(int argc, char **argv));

/* What is asked of a program instead of its work; of several, the last counts. */
typedef enum {
    PL_ASKS_NOTHING,
    PL_ASKS_HELP,
    PL_ASKS_USAGE,
    PL_ASKS_VERSION
} pl_command_question;

typedef struct {
    pl_command_question question;
    const struct argp *parser; /* of the program asked, and its name: what an answer is made of */
    const char *program;
} pl_command_asked;

/** argp_parse() that speaks on rank 0 only and never exits. `input` goes to the parser, which notes
 * in *status what it has refused itself. --help, --usage and --version go to *asked, which keeps the
 * parser and argv[0], and words that the parser leaves are refused: it says nothing of either.
 * Local. */
pl_status pl_command_parse(const struct argp *parser, int argc, char **argv, void *input,
                           const pl_status *status, pl_command_asked *asked);

/** Refuse option `key` of the parser's table: its word is empty, as of an unset variable in a
 * script. Local. */
pl_status pl_command_refuse_empty(const struct argp_option *table, int key);

/** Refuse the path of an output that cannot be written; NULL is none. A file that is there keeps
 * its content, one that is not appears empty. Local. */
pl_status pl_command_check_output(const char *flag, const char *path);

/** Answer what is asked, on rank 0; whether anything was. Local. */
bool pl_command_answered(const pl_command_asked *asked);

/** Whether the program goes on to its work. *status, what pl_command_parse() gave and checks since,
 * is agreed on as by pl_agree(), but that argp may have refused the options on every rank alike, and
 * so have said why already; if all is well, what is asked is answered. Collective over
 * MPI_COMM_WORLD. */
bool pl_command_begins(pl_status *status, const pl_command_asked *asked);

/** `given`, or what the environment says under `name`, as rank 0 has it, into text; "" for neither.
 * Ranks of other hosts may have another environment. Collective over comm. */
void pl_command_word(MPI_Comm comm, const char *given, const char *name, char *text, int size);

#endif
