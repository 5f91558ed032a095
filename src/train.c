/* train -- options in, exit code out. */
#include "config.h"

#include "kernels/isa.h"
#include "src/base/agree.h"
#include "src/base/log.h"
#include "src/base/panic.h"
#include "src/train/loop.h"

/* Whether argp has refused the options on every rank alike, and so has said why already. */
static bool argp_has_spoken(pl_status status)
{
    const int mine = status != PL_OK && pl_status_message()[0] == '\0';
    int all;

    PL_MPI(MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    if (mine && !all)
        pl_refuse(status, "an option is not understood; see --help");
    return all;
}

static pl_status train(int argc, char **argv)
{
    pl_options options;
    pl_session session;
    pl_status status = pl_options_parse(argc, argv, &options);

    if (argp_has_spoken(status))
        return status;
    if (status == PL_OK)
        status = pl_isa_choose();
    status = pl_agree(MPI_COMM_WORLD, status);
    if (status != PL_OK)
        return status;
    if (options.help || options.usage || options.version) {
        pl_options_answer(&options);
        return PL_OK;
    }
    status = pl_session_open(MPI_COMM_WORLD, &options, &session);
    if (status == PL_OK)
        status = pl_train(&session);
    pl_session_close(&session);
    return status;
}

int main(int argc, char **argv)
{
    int rank;

    PL_MPI(MPI_Init(&argc, &argv));
    PL_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    pl_log_set_rank(rank);
    const pl_status status = train(argc, argv);
    PL_MPI(MPI_Finalize());
    return (int)status;
}
