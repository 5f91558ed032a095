/* panic -- the lowest failing rank prints and aborts before the others' wait is over. */
#include "config.h"

#include "src/base/panic.h"

#include <mpi.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* A launcher that is told to abort may not read what has been said a moment before (MPICH's). */
enum { EXIT_INTERNAL = 4, WAIT_PER_RANK_MS = 20, WAIT_TO_BE_HEARD_MS = 10 };

static bool mpi_is_up(void)
{
    int initialized = 0, finalized = 0;

    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    return initialized && !finalized;
}

static void wait_ms(int64_t ms)
{
    const struct timespec wait = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&wait, NULL);
}

void pl_panic(const char *file, int line, const char *format, ...)
{
    const bool up = mpi_is_up();
    char cause[1024];
    int rank = 0;
    va_list args;

    if (up)
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);

    wait_ms((int64_t)rank * WAIT_PER_RANK_MS);
    va_start(args, format);
    vsnprintf(cause, sizeof cause, format, args);
    va_end(args);
    fflush(stdout);
    fprintf(stderr, "rank %d: %s:%d: %s\n", rank, file, line, cause);
    fflush(stderr);
    wait_ms(WAIT_TO_BE_HEARD_MS);
    if (up)
        MPI_Abort(MPI_COMM_WORLD, EXIT_INTERNAL);
    _exit(EXIT_INTERNAL);
}

void pl_mpi_check(const char *file, int line, const char *call, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;

    if (code == MPI_SUCCESS)
        return;
    MPI_Error_string(code, text, &length);
    pl_panic(file, line, "%s: %s", call, text);
}
