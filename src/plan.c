/* plan -- options in, exit code out. Plans need no MPI: nothing runs. */
#include "config.h"

#include "src/plan/commands.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    const pl_status status = pl_plan_dispatch(argc, argv);

    if (status != PL_OK && pl_status_message()[0] != '\0')
        fprintf(stderr, "%s\n", pl_status_message());
    return (int)status;
}
