/* contention -- what ranks of a host take from each other: bandwidth of memory, and turns on a core. */
#ifndef PURLIN_ROOFLINE_CONTENTION_H
#define PURLIN_ROOFLINE_CONTENTION_H

#include "src/machine/machine.h"
#include "src/roofline/measure.h"

/** Measure memory_contention, by sums of arrays of `largest` bytes together, on one rank of a host
 * and on all in turn, and handover_s, by ranks that do nothing but leave their core, with the
 * spread of both. ranks_per_core must be set. With one rank a host both are 0. The same on all
 * ranks. Collective over m->comm. */
void pl_measure_contention(const pl_measure *m, int64_t largest, pl_machine *machine);

#endif
