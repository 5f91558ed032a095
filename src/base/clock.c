/* clock -- CLOCK_MONOTONIC in seconds. */
#include "config.h"

#include "src/base/clock.h"

#include <time.h>

double pl_now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
