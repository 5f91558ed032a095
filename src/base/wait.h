/* wait -- how every wait of ours waits: poll a few times, then yield, then sleep.
 *
 * Eight ranks on two cores is a normal classroom; a rank that spins there costs the others
 * milliseconds. Usage:   pl_wait w = {0};   while (!ready()) pl_wait_once(&w);  */
#ifndef PURLIN_BASE_WAIT_H
#define PURLIN_BASE_WAIT_H

typedef struct {
    int polls; /* how often this wait has polled so far */
} pl_wait;

/** One step of a wait: returns at once for the first polls, then after sched_yield(), then, when
 * the wait has become long, after a sleep of some tens of microseconds, which grows up to a
 * millisecond where ranks share cores. When ranks own whole cores (see
 * pl_wait_set_oversubscribed()) it spins for longer before it yields. Local. */
void pl_wait_once(pl_wait *w);

/** Say once, at start, whether ranks outnumber cores on this host (the default is that they do). */
void pl_wait_set_oversubscribed(int oversubscribed);

#endif
