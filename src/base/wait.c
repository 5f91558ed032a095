/* wait -- poll, then yield, then sleep. */
#include "config.h"

#include "src/base/wait.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <time.h>

enum {
    POLLS_SHARED = 8,       /* spins before the first yield when ranks share cores: a few us */
    POLLS_OWN_CORE = 20000, /* and when each has its own: about a millisecond */
    YIELDS = 20000,         /* yields before the first sleep: some ms to some tens of ms */
    SLEEP_NS = 50000,
    MOST_SLEEP_NS = 1000000,
    SLEEPS_ALIKE = 4, /* then they are longer by the first */
};

/* Set once at start by pl_wait_set_oversubscribed(). */
static int polls_before_yield = POLLS_SHARED;

void pl_wait_set_oversubscribed(int oversubscribed)
{
    polls_before_yield = oversubscribed ? POLLS_SHARED : POLLS_OWN_CORE;
}

/* Who shares a core takes it from one that computes whenever it wakes, and it is those who wait
 * longest that wake most: their sleeps become longer, up to a few per cent of the wait so far. */
static long sleep_ns(int n_before)
{
    const bool shares = polls_before_yield == POLLS_SHARED;
    const int steps = shares ? n_before / SLEEPS_ALIKE : 0;

    return steps < MOST_SLEEP_NS / SLEEP_NS ? SLEEP_NS * (1L + steps) : MOST_SLEEP_NS;
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

    const struct timespec pause = {.tv_nsec = sleep_ns(w->polls - polls_before_yield - YIELDS - 1)};

    nanosleep(&pause, NULL);
}
