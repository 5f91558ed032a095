/* rings -- what our own ring schedules cost on links of given rates: the book's collective costs as
 * the price of what would run. Local. */
#ifndef PURLIN_ROOFLINE_RINGS_H
#define PURLIN_ROOFLINE_RINGS_H

#include "collectives/collective.h"

/** Seconds of the algorithm of that name ("ring", "bidirectional-ring") among n ranks for an array
 * of `bytes` in all (any real number), where a rank sends bytes_per_s and receives as much at the
 * same time, over all its links together, and a message takes latency_s; combining costs nothing.
 * NaN where a number is not known or n is no rank count. (collectives/cost.h; book, section 3.) */
double pl_ring_price_s(pl_collective collective, const char *algorithm, double n, double bytes,
                       double bytes_per_s, double latency_s);

#endif
