/* cores -- what the kernels may use of this host: threads, caches, space to pack in. */
#ifndef PURLIN_PROGRAM_CORES_H
#define PURLIN_PROGRAM_CORES_H

#include "src/mesh/topology.h"

/** Keep to a core where ranks take turns (pl_topology_spread()), tell the kernels what `topology`
 * found, and let them allocate what they need for it. Once at start, after the ISA is chosen.
 * Local. */
void pl_cores_use(const pl_topology *topology);

#endif
