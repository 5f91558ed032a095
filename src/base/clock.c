/* clock -- CLOCK_MONOTONIC and CLOCK_PROCESS_CPUTIME_ID in seconds. */
#include "config.h"

#include "src/base/clock.h"

#include <time.h>

static double read_s(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double pl_now_s(void)
{
    return read_s(CLOCK_MONOTONIC);
}

double pl_used_s(void)
{
    return read_s(CLOCK_PROCESS_CPUTIME_ID);
}
