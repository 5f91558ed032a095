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

pl_status pl_command_parse(const struct argp *parser, int argc, char **argv, void *input,
                           const pl_status *status)
{
    const unsigned quiet = pl_log_rank() == 0 ? ARGP_NO_EXIT | ARGP_NO_HELP : ARGP_SILENT;

    if (argp_parse(parser, argc, argv, quiet, NULL, input) == 0)
        return PL_OK;
    return *status != PL_OK ? *status : PL_BAD_INPUT;
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

pl_status pl_command_agree(MPI_Comm comm, pl_status status)
{
    const int mine = status != PL_OK && pl_status_message()[0] == '\0';
    MPI_Request request;
    int all;

    PL_MPI(MPI_Iallreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm, &request));
    pl_mpi_finish(&request, 1);
    if (all)
        return status;
    if (mine)
        pl_refuse(status, "an option is not understood; see --help");
    return pl_agree(comm, status);
}

void pl_command_answer(const struct argp *parser, const char *program, bool version, bool help)
{
    char name[32];

    if (pl_log_rank() != 0)
        return;
    snprintf(name, sizeof name, "%s", program);
    if (version)
        printf("%s\n", PACKAGE_STRING);
    else
        argp_help(parser, stdout, help ? ARGP_HELP_STD_HELP & ~ARGP_HELP_EXIT_OK : ARGP_HELP_USAGE,
                  name);
}

void pl_command_word(MPI_Comm comm, const char *given, const char *name, char *text, int size)
{
    const char *word = given != NULL ? given : getenv(name);
    MPI_Request request;

    snprintf(text, (size_t)size, "%s", word != NULL ? word : "");
    PL_MPI(MPI_Ibcast(text, size, MPI_CHAR, 0, comm, &request));
    pl_mpi_finish(&request, 1);
}
