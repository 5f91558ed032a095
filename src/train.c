/* train -- options in, exit code out. */
#include "config.h"

#include "kernels/isa.h"
#include "src/base/agree.h"
#include "src/base/log.h"
#include "src/base/panic.h"
#include "src/train/loop.h"

static pl_status train(int argc, char **argv)
{
    pl_options options;
    pl_session session;
    pl_status status = pl_options_parse(argc, argv, &options);

    if (status != PL_OK && pl_status_message()[0] == '\0')
        return status; /* argp has said why, and every rank heard the same */
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
