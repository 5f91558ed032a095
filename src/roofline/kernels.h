/* kernels -- what kernels cost by their shapes, measured by running some training steps of one rank,
 * all ranks at once, and fitted op by op (roofline/kernel_model.h). */
#ifndef PURLIN_ROOFLINE_KERNELS_H
#define PURLIN_ROOFLINE_KERNELS_H

#include "src/machine/machine.h"
#include "src/mesh/heap.h"
#include "src/mesh/topology.h"
#include "src/roofline/measure.h"

/** Add to machine->kernel what steps of `dtype` run and it has no terms of, and measure jitter_s with
 * PL_F32; machine->near_bytes, mid_bytes and ranks_per_core must be set. Every op
 * of every step is a sample: the median over some repetitions, the mean over the ranks of a host,
 * the most over hosts. Where ranks outnumber cores, time is what an op used of its core, times the
 * ranks that share it: turns that others take in the middle of an op are not the op's. Arrays lie in
 * `heap`, as a training's do. The same on all ranks. Collective over m->comm. */
void pl_measure_kernels(const pl_measure *m, pl_dtype dtype, pl_heap *heap, pl_machine *machine);

#endif
