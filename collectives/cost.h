/* cost -- what a schedule moves, and how long it should take. */
#ifndef PURLIN_COLLECTIVES_COST_H
#define PURLIN_COLLECTIVES_COST_H

#include "collectives/schedule.h"
#include "src/machine/machine.h"

typedef struct {
    int rounds;         /* rounds in which this rank sends or receives */
    int64_t messages;   /* messages this rank sends */
    int64_t sent_bytes; /* on the wire from this rank */
    int64_t received_bytes;
    int64_t reduced_bytes; /* read by reductions of received data */
    int64_t copied_bytes;  /* by local copies */
} pl_schedule_counts;

/** Count this rank's schedule (f32). Local. */
pl_schedule_counts pl_schedule_count(const pl_schedule *s);

/** Predicted time of one run, seconds: a round costs its latency for each message this rank
 * sends (at least one) + the larger of bytes sent and received over the link's bandwidth (both ways
 * at once, or one way); reductions and copies cost their bytes over the machine's reduce and copy
 * bandwidth. The fixed cost of starting a collective (comm_overhead_s) is not in it.  Source:
 * alpha-beta model, book section 3. Local. */
double pl_schedule_price_s(const pl_schedule *s, const pl_machine *machine, pl_link_class link);

#endif
