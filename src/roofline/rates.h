/* rates -- how fast kernels compute, reduce and copy here, by size: what a machine says of itself
 * before kernels are fitted by their shapes (kernels.h). */
#ifndef PURLIN_ROOFLINE_RATES_H
#define PURLIN_ROOFLINE_RATES_H

#include "src/machine/machine.h"
#include "src/roofline/measure.h"

/** Bytes of the largest working set that is asked for: beyond a rank's part of the last cache.
 * Local. */
int64_t pl_largest_set(const pl_topology *topology);

/** Everything about f32 kernels but their fits, and how far passes differ: three passes, each
 * figure their median. The same on all ranks. Collective over m->comm. */
void pl_measure_rates(const pl_measure *m, int64_t largest, pl_machine *machine);

/** The same of what bf16 needs more: products and attention. */
void pl_measure_bf16_rates(const pl_measure *m, pl_machine *machine);

#endif
