/* wait -- poll, then yield, then sleep. */
#include "config.h"

#include "src/base/wait.h"

#include <limits.h>
#include <sched.h>
#include <time.h>

enum {
    POLLS_SHARED = 8,       /* spins before the first yield when ranks share cores: a few us */
    POLLS_OWN_CORE = 20000, /* and when each has its own: about a millisecond */
    YIELDS = 20000,         /* yields before the first sleep: some ms to some tens of ms */
    SLEEP_NS = 50000,
};

/* Set once at start by pl_wait_set_oversubscribed(). */
static int polls_before_yield = POLLS_SHARED;

void pl_wait_set_oversubscribed(int oversubscribed)
{
    polls_before_yield = oversubscribed ? POLLS_SHARED : POLLS_OWN_CORE;
}

void pl_wait_once(pl_wait *w)
{
    if (w->polls < INT_MAX)
        w->polls++;
    if (w->polls <= polls_before_yield)
        return;
    if (w->polls <= polls_before_yield + YIELDS) {
        sched_yield();
        return;
    }

    const struct timespec pause = {.tv_nsec = SLEEP_NS};

    nanosleep(&pause, NULL);
}
