/* kernbench -- options in, exit code out. */
#include "config.h"

#include "kernels/isa.h"
#include "src/base/agree.h"
#include "src/base/command.h"
#include "src/base/panic.h"
#include "src/kernbench/bench.h"

static pl_status kernbench(int argc, char **argv)
{
    pl_kernbench_options options;
    pl_status status = pl_kernbench_options_parse(argc, argv, &options);
    int n_ranks;

    if (status == PL_OK)
        status = pl_isa_choose();
    PL_MPI(MPI_Comm_size(MPI_COMM_WORLD, &n_ranks));
    if (status == PL_OK && n_ranks > 1)
        status = pl_refuse(PL_BAD_INPUT,
                           "kernels are timed on one core, and there are %d ranks: run ./kernbench "
                           "without mpirun",
                           n_ranks);
    if (!pl_command_begins(&status, &options.asked))
        return status;
    return pl_agree(MPI_COMM_WORLD, pl_kernbench_run(&options));
}

int main(int argc, char **argv)
{
    return pl_command_main(argc, argv, kernbench);
}
