/* calibrate -- measure this machine's peaks in a few seconds, all ranks busy at once.
 *
 * Kernels are timed through their own interfaces and messages through the engine that will carry
 * them, so that a prediction is made of what will run. */
#ifndef PURLIN_ROOFLINE_CALIBRATE_H
#define PURLIN_ROOFLINE_CALIBRATE_H

#include "src/machine/machine.h"
#include "src/mesh/topology.h"

#include <mpi.h>
#include <stdbool.h>

/** Measure everything in `machine`, which is the same on all ranks bit for bit. Gives the kernels
 * what the topology says (pl_cores_use). Where no two ranks share a host, a message to the same
 * host is taken for a copy; where there is one host, the other link stays zero.
 * `quick`: in a second, figures that are there rather than right. Collective over comm. */
pl_status pl_calibrate(MPI_Comm comm, const pl_topology *topology, bool quick, pl_machine *machine);

/** Like pl_calibrate, but take the machine from the cache when it was measured before on such a CPU
 * with as many hosts, cores, ranks and threads. The cache is $XDG_CACHE_HOME/purlin or
 * ~/.cache/purlin; rank 0 alone reads and writes it, files appear whole or not at all, and where it
 * cannot be used every call measures. `recalibrate` measures in any case; quick measurements are kept apart. Says on stderr when it
 * measures. Collective over comm. */
pl_status pl_machine_cached(MPI_Comm comm, const pl_topology *topology, bool recalibrate, bool quick,
                            pl_machine *machine);

#endif
