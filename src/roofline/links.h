/* links -- what messages cost, measured through the engine. */
#ifndef PURLIN_ROOFLINE_LINKS_H
#define PURLIN_ROOFLINE_LINKS_H

#include "src/machine/machine.h"
#include "src/mesh/heap.h"
#include "src/roofline/measure.h"

/** Measure messages between neighbours of a ring of the ranks of each host (PL_LINK_SAME_HOST), or
 * between the ranks at the same place of neighbouring hosts (PL_LINK_OTHER_HOST); all rings at
 * once, arrays in the heap (may be NULL). *overhead_s receives what starting and finishing a
 * collective without messages costs. All zero when every ring has but one rank. The same on all
 * ranks. *overhead_spread is how far the windows of that lay apart. Collective over m->comm. */
void pl_measure_link(const pl_measure *m, const pl_topology *topology, pl_heap *heap,
                     pl_link_class class, pl_link *link, double *overhead_s,
                     double *overhead_spread);

#endif
