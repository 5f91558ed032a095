/* calibrate -- measure this machine's peaks in a few seconds, all ranks busy at once.
 *
 * Kernels are timed through their own interfaces and messages through the engine that will carry
 * them, so that a prediction is made of what will run. */
#ifndef PURLIN_ROOFLINE_CALIBRATE_H
#define PURLIN_ROOFLINE_CALIBRATE_H

#include "src/machine/machine.h"
#include "src/mesh/heap.h"
#include "src/mesh/topology.h"

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

/** Measure everything in `machine` but what bf16 needs, which is the same on all ranks bit for bit. Gives the kernels
 * what the topology says (pl_cores_use). Where no two ranks share a host, a message to the same
 * host is taken for a copy; where there is one host, the other link stays zero.
 * `quick`: in a second, figures that are there rather than right. `heap` is comm's, or NULL. When the
 * ranks' cores move meanwhile (roofline/line.h) it begins again, once. Collective over comm. */
pl_status pl_calibrate(MPI_Comm comm, const pl_topology *topology, pl_heap *heap, bool quick,
                       pl_machine *machine);

/** Add to a machine that pl_calibrate has measured what bf16 needs: its rates and the kernels of its
 * steps. Collective over comm. */
void pl_calibrate_bf16(MPI_Comm comm, const pl_topology *topology, pl_heap *heap, bool quick,
                       pl_machine *machine);

/** Whether something else was running while the machine was measured, by what measured it: ranks
 * drifted apart by more than PL_MOST_JITTER_S, their cores moved (line_s differs by more than
 * PL_MOST_SPREAD), or the passes over kernels differ by more than PL_MOST_DIFFERENCE in half of
 * their figures (judged where each has a core). `why` then names it. Local. */
bool pl_calibration_is_disturbed(const pl_machine *machine, char *why, size_t size);
#define PL_MOST_JITTER_S 1e-4
#define PL_MOST_DIFFERENCE 0.25

/** Put a machine that was measured into the cache, in the stead of what was measured with its cores
 * as far apart. One that was disturbed is marked instead, spoken
 * of on stderr and not kept, so that the next run measures again; quick ones are not judged. The
 * same on all ranks; rank 0 alone writes. Local. */
void pl_machine_keep(const pl_topology *topology, bool quick, pl_machine *machine);

/** Like pl_calibrate (and, for dtype PL_BF16, pl_calibrate_bf16 where that is lacking), but take the machine from the cache when it was measured before on such a CPU
 * with as many hosts, cores, ranks and threads, and cores as far apart as they are now (up to four such places are kept). The cache is $XDG_CACHE_HOME/purlin or
 * ~/.cache/purlin; rank 0 alone reads and writes it, files appear whole or not at all, and where it
 * cannot be used every call measures. `recalibrate` measures in any case; quick
 * measurements are kept apart, disturbed ones not at all (pl_machine_keep). Says on stderr when it
 * measures. Collective over comm. */
pl_status pl_machine_cached(MPI_Comm comm, const pl_topology *topology, pl_heap *heap,
                            bool recalibrate, bool quick, pl_dtype dtype, pl_machine *machine);

/** Take from the cache what was measured with cores line_s apart; where line_s is 0, of any such
 * machine. Whether there is one. Local. */
bool pl_machine_recall(const pl_topology *topology, bool quick, double line_s, pl_machine *machine);

#endif
