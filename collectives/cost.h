/* cost -- what a schedule moves, and how long it should take. */
#ifndef PURLIN_COLLECTIVES_COST_H
#define PURLIN_COLLECTIVES_COST_H

#include "collectives/schedule.h"
#include "collectives/site.h"
#include "src/base/dtype.h"
#include "src/machine/machine.h"

typedef struct {
    int rounds;         /* rounds in which this rank sends or receives */
    int64_t messages;   /* messages this rank sends */
    int64_t sent_bytes; /* in messages from this rank */
    int64_t received_bytes;
    int64_t reduced_bytes; /* read by reductions of received data */
    int64_t copied_bytes;  /* by local copies */
    int awaits;            /* rounds in which this rank awaits a peer of the same run */
    int64_t read_bytes;    /* read by combinations: one's own and peers' memory */
    int64_t written_bytes; /* written by combinations */
    int64_t wire_bytes;    /* put in motion towards or from other ranks by this rank: sent, or read
                            * from or written to a peer's memory */
    int64_t touched_bytes; /* of memory, by copies, combinations and messages; what a combination
                            * reads and writes counts once */
} pl_schedule_counts;

/** Count this rank's schedule. Local. */
pl_schedule_counts pl_schedule_count(const pl_schedule *s, pl_dtype dtype);

/** Predicted time of one run for `rank` in a series of runs, seconds. Round by round:
 *
 *   signal_s                     if it awaits a later stage than the rounds before
 *   + latency, message_s for each further message (a latency where it is not known), and the larger
 *     of bytes sent and received / W of the link at their mean size (both ways at once, or one way),
 *     by link; links between hosts at the same time as:
 *   + bytes of copies and combinations / W of their class at touched_bytes
 *   + bytes of received data that are reduced / W
 *
 * Bytes are those touched, or, where peers' memory is written, those written. Memory is slower that
 * one rank writes and another reads in the same run: staging, what is published, and what is read
 * of a peer by a step that has news. The fixed cost of starting a collective (comm_overhead_s) is
 * not in it.
 * Source: alpha-beta model, book section 3. Local. */
double pl_schedule_price_s(const pl_schedule *s, pl_dtype dtype, const pl_machine *machine,
                           const pl_site *site, int rank);

#endif
