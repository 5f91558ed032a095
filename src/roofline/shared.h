/* shared -- what collectives in shared memory cost, measured by running some. */
#ifndef PURLIN_ROOFLINE_SHARED_H
#define PURLIN_ROOFLINE_SHARED_H

#include "src/machine/machine.h"
#include "src/mesh/heap.h"
#include "src/roofline/measure.h"

/** Measure machine->signal_s and the shared_*_bytes_per_s between the ranks of each host, all hosts at
 * once. machine's other figures about collectives and its caches must be there. Each curve comes from one
 * algorithm: its time without what the rest of its schedule is priced at; so does each of
 * shared_far_bytes_per_s, with the caches filled anew before each run. Without a heap, or with
 * one rank a host, nothing is changed. The same on all ranks. Collective over m->comm. */
void pl_measure_shared(const pl_measure *m, const pl_topology *topology, pl_heap *heap,
                       pl_machine *machine);

#endif
