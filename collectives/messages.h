/* messages -- the schedules of all ranks of a collective, simulated message by message on a network
 * of levels: what closed forms say of all ranks alike is here found from each. */
#ifndef PURLIN_COLLECTIVES_MESSAGES_H
#define PURLIN_COLLECTIVES_MESSAGES_H

#include "collectives/schedule.h"
#include "src/base/dtype.h"
#include "src/machine/wires.h"

/* One chip whose links are slower: so many times as long for every byte that it sends. */
typedef struct {
    int rank; /* -1: none */
    double factor;
} pl_slow_chip;

/** When the last rank is done, seconds, with all starting at 0. A rank sends the messages of a
 * round when it begins it, in the order written: each waits until the link of its first hop (the
 * port, on a switch) has sent those before, takes bytes / rate, and arrives after the hops'
 * latency; the links of later hops are not waited for. A round ends when its messages have been
 * sent and what it receives is there. `n_messages` (may be NULL) receives how many were sent. Cost:
 * all ranks' steps. Local. */
double pl_messages_simulate(const pl_wires *wires, const pl_schedule *const *schedules,
                            pl_dtype dtype, pl_slow_chip slow, int64_t *n_messages);

#endif
