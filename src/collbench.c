/* collbench -- options in, exit code out. */
#include "config.h"

#include "kernels/isa.h"
#include "src/base/agree.h"
#include "src/base/command.h"
#include "src/base/panic.h"
#include "src/collbench/bench.h"
#include "src/collbench/picture.h"

static pl_status measure(const pl_bench_options *options)
{
    pl_bench bench;
    pl_status status = pl_bench_open(MPI_COMM_WORLD, options, &bench);

    if (status == PL_OK)
        status = pl_bench_run(&bench);
    const pl_status closed = pl_bench_close(&bench);
    return status != PL_OK ? status : closed;
}

static pl_status collbench(int argc, char **argv)
{
    pl_bench_options options;
    pl_status status = pl_bench_options_parse(argc, argv, &options);
    int n_ranks;

    if (status == PL_OK)
        status = pl_isa_choose();
    if (!pl_command_begins(&status, &options.asked))
        return status;
    PL_MPI(MPI_Comm_size(MPI_COMM_WORLD, &n_ranks));
    if (options.print_schedule)
        return pl_agree(MPI_COMM_WORLD, pl_bench_print_schedules(&options, n_ranks));
    return measure(&options);
}

int main(int argc, char **argv)
{
    return pl_command_main(argc, argv, collbench);
}
