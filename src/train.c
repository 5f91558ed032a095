/* train -- options in, exit code out. */
#include "config.h"

#include "kernels/isa.h"
#include "src/base/command.h"
#include "src/train/compare.h"
#include "src/train/loop.h"

static pl_status train(int argc, char **argv)
{
    pl_options options;
    pl_session session;
    pl_status status = pl_options_parse(argc, argv, &options);

    if (status == PL_OK)
        status = pl_isa_choose();
    if (!pl_command_begins(&status, &options.asked))
        return status;
    status = pl_session_open(MPI_COMM_WORLD, &options, &session);
    if (status == PL_OK)
        status = options.compare > 0 ? pl_compare(&session) : pl_train(&session);
    pl_session_close(&session);
    return status;
}

int main(int argc, char **argv)
{
    return pl_command_main(argc, argv, train);
}
