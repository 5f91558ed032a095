/* log -- one rank talks. */
#include "config.h"

#include "src/base/log.h"

#include <stdarg.h>
#include <stdio.h>

/* Set once after MPI_Init. */
static int log_rank;

void pl_log_set_rank(int rank)
{
    log_rank = rank;
}

int pl_log_rank(void)
{
    return log_rank;
}

/** One write a line, so that lines of other processes on the same terminal do not cut it. */
static void talk(const char *before, const char *format, va_list args)
{
    char line[4096];
    const int head = snprintf(line, sizeof line, "%s", before);

    vsnprintf(line + head, sizeof line - (size_t)head, format, args);
    fflush(stdout);
    fprintf(stderr, "%s\n", line);
    fflush(stderr);
}

void pl_say(const char *format, ...)
{
    va_list args;

    if (log_rank != 0)
        return;
    va_start(args, format);
    talk("", format, args);
    va_end(args);
}

void pl_warn(const char *format, ...)
{
    va_list args;

    if (log_rank != 0)
        return;
    va_start(args, format);
    talk("warning: ", format, args);
    va_end(args);
}

void pl_print(const char *format, ...)
{
    va_list args;

    if (log_rank != 0)
        return;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    fflush(stdout); /* under mpirun stdout is a pipe, and a step's line should show at once */
}
