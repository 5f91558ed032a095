/* line -- how far apart the cores of a host's ranks are: what a cache line takes from one to the
 * next.
 *
 * On a machine of one's own that is always the same. A virtual machine's cores are threads that its
 * host moves over physical ones: now they share a last cache and its way to memory, now each has one
 * to itself (on two cores of an AMD EPYC, Zen 5, 40 ns and 67 GB/s together, or 190 ns and 120 GB/s,
 * for seconds to minutes). What was measured of memory, of collectives and of kernels that stream
 * holds for one such place only. */
#ifndef PURLIN_ROOFLINE_LINE_H
#define PURLIN_ROOFLINE_LINE_H

#include "src/mesh/heap.h"
#include "src/mesh/topology.h"

#include <mpi.h>
#include <stdbool.h>

/** Seconds that a counter takes from one rank's core to the next one's, round all ranks: the lower
 * quartile of many rounds, in some milliseconds. 0, not known: without heap, with several hosts,
 * with one rank, where ranks take turns (by whose turn it is more is decided than by where cores
 * are), or when their cores were busy with something else. The same on all ranks. Collective over
 * comm, which is heap's. */
double pl_measure_line(MPI_Comm comm, const pl_topology *topology, pl_heap *heap);

/** Two such times less than so many times apart are of one place: places differ by a factor of 1.5
 * and more, one place from minute to minute by 1.1. */
#define PL_MOST_ALIKE 1.25

/** Whether two such times (0: not known) are of different places, as far as is known. Local. */
bool pl_lines_differ(double line_s, double other_s);

#endif
